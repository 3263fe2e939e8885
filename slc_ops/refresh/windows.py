"""The steps ``extract`` and ``validate``: the windows that a refresh needs, and those it may use."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slc_ops.base.code_version import code_version
from slc_ops.base.digests import digest_json
from slc_ops.base.errors import InputError, SettingsError, SlcError, ValidationStopped
from slc_ops.base.json_form import to_json
from slc_ops.base.lineage import Data, lineage
from slc_ops.base.window import Window
from slc_ops.refresh.backbone import exact_names, rows_of, serving_version
from slc_ops.refresh.observed import observed
from slc_ops.refresh.plan import Plan, PlannedWindow, make_plan
from slc_ops.refresh.versions import outcomes
from slc_ops.refresh.window_rules import (
    BACKBONE,
    STOPPED,
    Reach,
    excluded,
    held_windows,
    left_out,
    needed_windows,
    of_another,
    part_to_use,
    windows_of_the_backbone_before,
    windows_read_again,
)
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.environment import Installation

if TYPE_CHECKING:
    from slc_ops.intake.manifest import WindowManifest


class NoRows(InputError):
    """The newest window has no rows, or none with a label yet."""


ATTEMPTS = 3
"""Number of validations if late rows replace a window meanwhile."""


@observed
def extract(installation: Installation, name: str, window: Window) -> list[Window]:
    """Extract the window and its history; return the windows with rows.

    The newest window and the ``lookback_windows`` before it are read again from the source, because late rows
    may have arrived; older ones are final. Windows further back are the baselines of the oldest ones'
    validation.

    Raises:
        NoRows: The newest window is empty; an empty past window is skipped.
    """
    from slc_ops.intake.sources import open_source

    deployment, home = installation.deployment(name), installation.sources or installation.home

    def reads() -> list[Data]:
        both = [each for each in (deployment.source, deployment.labels) if each is not None]
        return [data for each in both for data in open_source(each, home, window).datasets()]

    with lineage("extract", name, window, reads, silent=installation.rehearsal) as written:
        found, newest = _extracted(installation, name, window, deployment, home)
        written.append(Data("file", str(newest.path), newest.digest, newest.rows))
    return found


def _extracted(
    installation: Installation, name: str, window: Window, deployment: Deployment, home: Path
) -> "tuple[list[Window], WindowManifest]":
    """Return the windows with rows, and the manifest of the newest."""
    from slc_ops.intake.extract import extract as extract_window
    from slc_ops.intake.labels import WAITING
    from slc_ops.quality.history import reach
    from slc_ops.quality.statistics import RowStatistics
    from slc_ops.rows.engine import engine_of

    engine = engine_of(deployment.engine)  # an unreachable cluster stops the refresh here
    wanted = needed_windows(window, Reach.of(dict(deployment)))
    late = windows_read_again(window, deployment.lookback_windows)
    found = []
    for each in [*wanted[0].before(reach(window)), *wanted]:
        manifest = extract_window(
            deployment,
            each,
            installation.windows(name),
            refresh=each in late,
            home=home,
            observer=RowStatistics(each, deployment.quality.logit_limit),
            by=engine,
        )
        if manifest.rows and each in wanted:
            found.append(each)
    if window not in found:
        if waiting := manifest.notes.get(WAITING):
            raise NoRows(
                f"none of the {waiting} rows of window {window} of {name!r} has a label yet; refresh again "
                "when labels have arrived, or set a longer label_lag"
            )
        raise NoRows(
            f"deployment {name!r} has no rows in window {window}; "
            f"check that its source is filled for that {deployment.cadence.name}, then refresh again"
        )
    return found, manifest


def lacking(installation: Installation, name: str, window: Window) -> str | None:
    """Return the reason why the window cannot be extracted yet; None if all its sources have rows.

    A source that fails is treated like a late one; the reason contains its error.

    Raises:
        SettingsError: The source's settings are invalid.
    """
    from slc_ops.intake.extract import is_filled

    deployment = installation.deployment(name)
    try:
        if is_filled(deployment, window, installation.sources or installation.home):
            return None
    except SettingsError:
        raise
    except SlcError as error:
        return str(error)
    return f"the source of {name!r} has no rows in window {window}"


@observed
def validate(installation: Installation, name: str, window: Window) -> Path:
    """Validate all needed windows, and write the plan; return its file.

    A past window that the suite stops is excluded from the refresh and listed in the report.

    Raises:
        ValidationStopped: The suite stopped the newest window.
    """
    deployment = installation.deployment(name)
    for _ in range(ATTEMPTS):
        if (plan := _planned(installation, name, deployment, window)) is not None:
            return plan.path
    raise InputError(
        f"the windows of {name!r} were extracted again {ATTEMPTS} times while {window} was being validated; "
        "let the other refreshes finish, then run this one again"
    )


def _planned(installation: Installation, name: str, deployment: Deployment, window: Window) -> Plan | None:
    from slc_ops.intake.manifest import WindowManifest
    from slc_ops.methods.fitting.window_sums import keep_sums
    from slc_ops.quality.history import History
    from slc_ops.quality.statistics import statistics_of
    from slc_ops.quality.verdict import validate as validate_window
    from slc_ops.rows.engine import engine_of

    engine = engine_of(deployment.engine)

    def manifest_of(each: Window) -> WindowManifest:
        return WindowManifest.read(installation.windows(name) / each.key)

    quality = deployment.quality
    if deployment.on_new_backbone == "split":  # a mixture does not stop the window: it is split afterwards
        quality = quality.model_copy(update={"allow_mixed_backbones": True})
    history = History(manifest_of, quality, engine)

    def usable_rows(each: Window) -> PlannedWindow:
        manifest = manifest_of(each)
        result = validate_window(
            manifest, history.baseline(each), quality, engine, suite=not installation.rehearsal
        )
        # The usable rows are a function of the window's content, the events of earlier windows, the suite's
        # settings and the code.
        engines = [] if deployment.engine == "local" else [deployment.engine]  # each adds in its own order
        key = digest_json(
            [
                manifest.digest,
                *filter(None, [result.seen_digest]),
                quality.model_dump(mode="json"),
                code_version(),
                *engines,
            ]
        )
        keep_sums(result.clean_path, key, engine)
        return PlannedWindow(each, result.clean_path, manifest.digest, result.as_dict(), key)

    reach = Reach.of(dict(deployment))
    needed = needed_windows(window, reach)
    held = held_windows([(each, _renewal(installation, name, each)) for each in needed[:-1]])
    taken_back = _left_out_by_people(installation, name)
    names = {
        each: set(statistics_of(manifest, deployment.quality.logit_limit, engine).versions)
        for each in needed
        if (manifest := manifest_of(each)).rows
    }
    validated: list[PlannedWindow] = []
    others: list[tuple[Window, set[str]]] = []
    exclusions: list[dict[str, str]] = []
    for each, found in names.items():
        if (reason := left_out(each, found, window, names[window], held, taken_back)) is not None:
            exclusions.append(reason)
            others += [(each, found)] if reason["kind"] == BACKBONE else []
            continue
        try:
            validated.append(usable_rows(each))
        except ValidationStopped as stopped:
            if each == window:
                raise
            exclusions.append(excluded(each, STOPPED, stopped.kept))
    validated[-1] = _audited(installation, name, validated[-1], deployment)
    serving = serving_version(validated[-1].log, names[window], engine)
    usable = []
    for one in validated:
        found = exact_names(one.log, names[one.window], engine)
        part = part_to_use(found, serving, mixed=deployment.quality.allow_mixed_backbones)
        if part == "none":
            exclusions.append(of_another(one.window, found, serving))
            others.append((one.window, found))
        else:
            usable.append(one if part == "all" else rows_of(one, str(serving), engine))
    earlier = []
    for each in windows_of_the_backbone_before(usable[0].window, others, reach, deployment.methods):
        with suppress(ValidationStopped):  # it is not used, as at its own refresh
            earlier.append(usable_rows(each))
    return make_plan(
        name,
        deployment,
        window,
        usable,
        exclusions,
        installation.refreshes(name),
        lambda each: manifest_of(each).digest,
        earlier,
        serving,
    )


def _audited(
    installation: Installation, name: str, newest: PlannedWindow, deployment: Deployment
) -> PlannedWindow:
    """Return the newest window with the findings of its served probabilities; too many raise."""
    from slc_ops.refresh.served import audit_served

    if installation.rehearsal:
        return newest
    directory = installation.windows(name) / newest.window.key
    table, found = audit_served(installation, name, newest.log, directory, deployment.quality.served_off)
    if critical := [each for each in found if each.severity == "critical"]:
        raise ValidationStopped(f"window {newest.window}: {critical[0].line()}. The champion stays")
    if table is None:
        return newest
    old = newest.validation
    findings = [*old["findings"], *(to_json(each) for each in found)]
    status = "warned" if findings else old["status"]
    return replace(newest, validation={**old, "status": status, "findings": findings, "served": table})


def _renewal(installation: Installation, name: str, window: Window) -> dict[str, Any]:
    """Return the renewal in the last refresh of a window; empty without one."""
    for refreshes in outcomes(installation.refreshes(name), window):
        _, outcome = refreshes[-1]
        return outcome.renewal
    return {}


def _left_out_by_people(installation: Installation, name: str) -> dict[Window, str]:
    """Return the windows that a person excluded from later fits by a rollback, with a sentence."""
    from slc_ops.registry import Registry
    from slc_ops.registry.rules import excluded_by_people

    line = Registry.open(installation, create=False).history(name)
    return {each.window: f"left out on purpose: {each.sentence}" for each in excluded_by_people(line)}
