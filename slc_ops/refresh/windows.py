"""The steps ``extract`` and ``validate``: which windows a refresh needs, and which of them it may use."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from slc_ops.base.code_version import code_version
from slc_ops.base.errors import InputError, SettingsError, SlcError, ValidationStopped
from slc_ops.base.files import digest_json
from slc_ops.base.window import Window
from slc_ops.observability.lineage import Data, lineage
from slc_ops.observability.steps import observed
from slc_ops.refresh.backbone import names_in, of_one_backbone, windows_before
from slc_ops.refresh.held import held_windows
from slc_ops.refresh.plan import HELD, Plan, PlannedWindow, make_plan
from slc_ops.settings.deployments import Deployment, Places

if TYPE_CHECKING:
    from slc_ops.intake.manifest import WindowManifest
    from slc_ops.rows.engine import WindowEngine

ATTEMPTS = 3
"""How often the windows are validated again when late rows replace one meanwhile."""


def needed_windows(deployment: Deployment, window: Window) -> list[Window]:
    """The refreshed window and the earlier ones that its backtest learns from, oldest first."""
    memory = max(deployment.offset_windows, deployment.link_windows)
    return [*window.before(deployment.evidence_windows - 1 + memory), window]


@observed
def extract(places: Places, name: str, window: Window, settings: Deployment | None = None) -> list[Window]:
    """Pull the window and the history it needs; return the windows to learn from that hold rows.

    The newest window and the ``lookback_windows`` before it are read again from the source, because late rows
    may have reached them; older ones are final once extracted. An empty past window is no window, an empty
    newest window is an error. Further back lie the windows that validation measures the oldest ones against.
    """
    from slc_ops.intake.sources import reader_of

    deployment = settings or places.deployment(name)
    home = places.sources or places.home

    def reads() -> list[Data]:
        both = [each for each in (deployment.source, deployment.labels) if each is not None]
        named = [name for each in both for name in reader_of(each).datasets(each, home)]
        return [Data(each.namespace, each.name) for each in named]

    with lineage("extract", name, window, reads) as written:
        found, newest = _extracted(places, name, window, deployment, home)
        written.append(window_data(newest))
    return found


def window_data(manifest: "WindowManifest") -> Data:
    """An extracted window, as lineage names it."""
    return Data("file", str(manifest.path), manifest.digest, manifest.rows)


def _extracted(
    places: Places, name: str, window: Window, deployment: Deployment, home: Path
) -> "tuple[list[Window], WindowManifest]":
    """The windows that hold rows, and the manifest of the newest."""
    from slc_ops.intake.extract import extract as extract_window
    from slc_ops.intake.labels import WAITING
    from slc_ops.quality import observer
    from slc_ops.quality.history import REACH
    from slc_ops.rows.engine import engine_of

    engine = engine_of(deployment.engine)  # a cluster that cannot be reached stops the refresh here
    wanted = needed_windows(deployment, window)
    late = wanted[-(1 + deployment.lookback_windows) :]
    found = []
    for each in [*wanted[0].before(REACH), *wanted]:
        manifest = extract_window(
            deployment,
            each,
            places.windows(name),
            refresh=each in late,
            home=home,
            observer=observer(each, deployment),
            by=engine,
        )
        if manifest.rows and each in wanted:
            found.append(each)
    if window not in found:
        if waiting := manifest.notes.get(WAITING):
            raise InputError(
                f"none of the {waiting} rows of window {window} of {name!r} has a label yet; refresh again "
                "when they have come, or set a longer label_lag"
            )
        raise InputError(
            f"deployment {name!r} has no rows in window {window}; "
            f"check that its source is filled for that {deployment.cadence.name}, then refresh again"
        )
    return found, manifest


def lacking(places: Places, name: str, window: Window) -> str | None:
    """Why the window cannot be extracted yet; None where its source, and that of its labels, have rows of it.

    A source that is misconfigured is waited for like one that is late: the reason says which it is.
    """
    from slc_ops.intake.extract import is_filled

    deployment = places.deployment(name)
    try:
        if is_filled(deployment, window, places.sources or places.home):
            return None
    except SettingsError:
        raise
    except SlcError as error:
        return str(error)
    return f"the source of {name!r} has no rows in window {window}"


@observed
def validate(places: Places, name: str, window: Window, settings: Deployment | None = None) -> Path:
    """Validate every window that is needed, and name the refresh; returns the plan's file.

    ``settings`` replaces the deployment's own, for this refresh only. A past window that the suite stops is
    left out of the refresh and named in the report; the newest one stops the refresh.
    """
    deployment = settings or places.deployment(name)
    for _ in range(ATTEMPTS):
        if (plan := _planned(places, name, deployment, window)) is not None:
            return plan.path
    raise InputError(
        f"the windows of {name!r} were extracted again {ATTEMPTS} times while {window} was being validated; "
        "let the other refreshes finish, then run this one again"
    )


def _planned(places: Places, name: str, deployment: Deployment, window: Window) -> Plan | None:
    from slc_ops.intake.manifest import WindowManifest
    from slc_ops.methods.fitting.window_sums import keep_sums
    from slc_ops.quality import validate as validate_window
    from slc_ops.quality.history import History
    from slc_ops.rows.engine import engine_of

    engine = engine_of(deployment.engine)

    def manifest_of(each: Window) -> WindowManifest:
        return WindowManifest.read(places.windows(name) / each.key)

    judged = deployment
    if deployment.on_new_backbone == "split":  # a mixture stops nothing: it is split afterwards
        quality = deployment.quality.model_copy(update={"allow_mixed_backbones": True})
        judged = deployment.model_copy(update={"quality": quality})
    history = History(manifest_of, judged.quality, engine)
    usable: list[PlannedWindow] = []
    others: list[tuple[Window, set[str]]] = []
    excluded: list[dict[str, str]] = []

    def usable_rows(each: Window) -> PlannedWindow:
        manifest = manifest_of(each)
        result = validate_window(manifest, history.yardstick(each), judged, engine)
        # The usable rows are a function of the window's content, the suite's settings and the code.
        engines = [] if deployment.engine == "local" else [deployment.engine]  # each adds in its own order
        key = digest_json([manifest.digest, judged.quality.model_dump(mode="json"), code_version(), *engines])
        keep_sums(result.clean_path, key, engine)
        return PlannedWindow(each, result.clean_path, manifest.digest, result.as_dict(), key)

    backbones = _backbones(manifest_of(window), deployment, engine)
    held = held_windows(places, name, needed_windows(deployment, window))
    for each in needed_windows(deployment, window):
        manifest = manifest_of(each)
        if not manifest.rows:
            continue
        found = _backbones(manifest, deployment, engine)
        if found and backbones and not found & backbones:
            theirs, ours = (", ".join(sorted(names)) for names in (found, backbones))
            reason = f"it is of backbone {theirs}, and {window} of {ours}"
            excluded.append({"window": str(each), "kind": "backbone", "reason": reason})
            others.append((each, found))
            continue
        if each in held:
            excluded.append({"window": str(each), "kind": HELD, "reason": held[each]})
            continue
        try:
            usable.append(usable_rows(each))
        except ValidationStopped as stopped:
            if each == window:
                raise
            excluded.append({"window": str(each), "kind": "stopped", "reason": str(stopped)})
    validated = usable
    usable, left_out = of_one_backbone(validated, deployment)
    excluded += left_out
    kept = {each.window for each in usable}
    others += [(each.window, names_in(each.log, engine)) for each in validated if each.window not in kept]
    earlier = []
    for each in windows_before(usable[0].window, others, deployment):
        with suppress(ValidationStopped):  # nothing is learned from it, now as then
            earlier.append(usable_rows(each))
    return make_plan(
        name,
        deployment,
        window,
        usable,
        excluded,
        places.refreshes(name),
        lambda each: manifest_of(each).digest,
        earlier,
    )


def _backbones(manifest: "WindowManifest", deployment: Deployment, engine: "WindowEngine") -> set[str]:
    """The versions of the backbone that a window's rows name."""
    from slc_ops.quality.statistics import statistics_of

    if not manifest.rows:
        return set()
    return set(statistics_of(manifest, deployment.quality.logit_limit, engine).versions)
