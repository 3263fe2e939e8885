"""Replay past windows as they would have been refreshed, in a temporary home.

Every window is refreshed by :func:`slc_ops.refresh.pipeline.refresh`, oldest first, with every change of
method approved at once (``gate: auto``) and late rows treated as on time. The ledger and its rules are the
real ones; there is no MLflow, validation applies the suite's rules without the suite, and no report is
written. A window between two scheduled refreshes (``refresh_every``) is scored without a decision.

A refresh makes no entry for a window that validation stops, and its methods use no windows that were stopped
or held. All of these were served, so a replay scores them, too: each method, and weekly Platt in particular,
is fitted on the last windows with rows, stopped or not, and the champion is scored beside them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from slc_ops.base.errors import SelfTestFailed, SettingsError, SlcError, ValidationStopped
from slc_ops.base.files import unsynced
from slc_ops.base.methods import FROZEN, PLATT, ladder
from slc_ops.base.text import as_sentence
from slc_ops.base.window import Window
from slc_ops.evidence.backtest import compare_champion, entry_of
from slc_ops.evidence.folds import Fold, FoldPlan
from slc_ops.evidence.replayed import SERVED, Renewed, Replay, ReplayedWindow
from slc_ops.evidence.results import Backtest, Champion
from slc_ops.evidence.scoring import CHAMPION, read_users, score_directory, score_fold
from slc_ops.evidence.series import Entry
from slc_ops.evidence.series import entry as series_entry
from slc_ops.evidence.uncertainty import UserSums
from slc_ops.evidence.verdict import current_method
from slc_ops.evidence.within import Within
from slc_ops.intake.manifest import WindowManifest
from slc_ops.quality.quarantine import PutAside
from slc_ops.quality.statistics import statistics_of
from slc_ops.refresh import pipeline
from slc_ops.refresh.backbone import BackboneChange
from slc_ops.refresh.backfill import MAX_WINDOWS, border
from slc_ops.refresh.champion import ChampionReference, current_champion
from slc_ops.refresh.evidence import read_backtest, read_verdict
from slc_ops.refresh.plan import Plan
from slc_ops.refresh.retention import discard
from slc_ops.refresh.window_rules import BACKBONE, Reach, is_scheduled
from slc_ops.refresh.windows import NoRows
from slc_ops.rows.engine import engine_of
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.environment import Installation

if TYPE_CHECKING:
    from slc_ops.registry import Registry

REFRESHES = "refreshes"
"""Below the home, with the ledger of the replay; unlike the extracted rows, it is deleted afterwards."""
SCORES, ROWS, BAD = "served-scores", "served.parquet", "served-bad.parquet"
FAR = 52
"""Number of windows to search for the last ones with rows."""


def replay_windows(settings: Deployment, start: str, end: str) -> list[Window]:
    """Return the windows of ``[start, end)``; borders off the grid raise :class:`SettingsError`."""
    cadence = settings.cadence
    whole = Window(border(cadence, start, "from"), border(cadence, end, "to"), settings.window.zone)
    windows = cadence.between(whole.start, whole.end)
    if len(windows) > MAX_WINDOWS:
        raise SettingsError(f"{whole} is {len(windows)} windows; replay at most {MAX_WINDOWS} at a time")
    return windows


def run_replay(
    name: str,
    settings: Deployment,
    windows: Sequence[Window],
    directory: Path,
    *,
    home: Path,
    tell: Callable[[str], None] = lambda text: None,
) -> Replay:
    """Replay the windows, oldest first, as if their refreshes had run one after the other.

    Extracted rows are kept under ``directory``; relative paths of the source start at ``home``. Windows
    before the first one are used if the source has them, as in the first refresh. ``tell`` is called with a
    line per window.
    """
    found = []
    for replayed in replayed_windows(name, settings, windows, directory, home=home):
        found.append(replayed)
        tell(f"{replayed.window}: {replayed.status}, served {replayed.served}, next {replayed.serves_next}")
    discard(directory / REFRESHES)
    return Replay(name, ladder(settings.methods), tuple(found), settings.decision.confidence)


def replayed_windows(
    name: str, settings: Deployment, windows: Sequence[Window], directory: Path, *, home: Path
) -> Iterator[ReplayedWindow]:
    """Yield each window's result; its files are in ``directory`` until the next one."""
    discard(directory / REFRESHES)  # the last champion of another replay does not serve here
    approved = settings.model_copy(update={"gate": "auto", "renew": "auto", "lookback_windows": 0})
    installation = rehearsal_installation(directory, home).with_settings(name, approved)
    for window in windows:
        with unsynced():
            replayed = _replayed(installation, name, window)
        yield replayed


def rehearsal_installation(directory: Path, home: Path) -> Installation:
    """Return an installation with a temporary home; sources and erased users are those of ``home``."""
    own = directory.absolute()
    return replace(
        Installation.from_environment(),
        home=own,
        sources=home,
        ledger_url=f"sqlite:///{own}/{REFRESHES}/ledger.db",
        rehearsal=True,
    )


def _replayed(installation: Installation, name: str, window: Window) -> ReplayedWindow:
    """Run one refresh, and return its result."""
    from slc_ops.registry import Registry

    settings, registry = installation.deployment(name), Registry.open(installation)
    before, champion_then = _serving(registry, name), current_champion(installation, name)
    due = is_scheduled(window, settings.cadence, settings.refresh_every)
    try:
        plan = pipeline.refresh(
            installation, name, window, until="promote" if due else "backtest", off_grid=True
        )
    except NoRows as missing:
        return ReplayedWindow(window, "missing", before, before, note=str(missing).split(";")[0])
    except (ValidationStopped, SelfTestFailed) as stopped:
        note = stopped.kept if isinstance(stopped, ValidationStopped) else str(stopped)
        entry_then = entry_of_unscored(installation, name, window, champion_then)
        return ReplayedWindow(
            window, "stopped", before, _serving(registry, name), entry=entry_then, note=note
        )
    backtest = read_backtest(plan)
    served, note = current_method(backtest), _about_backbone(registry, name, window, backtest)
    entry = _with_served(installation, plan, backtest)
    status: Literal["first", "scored"] = "scored"
    if entry.hold_out:  # no usable window is before it; but a champion may have served it
        status, entry = "first", entry_of_unscored(installation, name, window, champion_then) or entry
    ranking = {} if status == "first" else _ranking(backtest)
    if not due:
        return ReplayedWindow(window, status, served, before, entry=entry, note=note, ranking=ranking)
    verdict = read_verdict(plan)
    champion = registry.champion(name)
    renewal: Renewed = "none"
    if champion is not None and champion.window == window:
        renewal = "renewed"
    elif verdict["kind"] != "none" and verdict["verdict"] == "hold":
        renewal = "held"
    return ReplayedWindow(
        window, status, served, _serving(registry, name), renewal, entry, note, _sentence(verdict), ranking
    )


def _ranking(backtest: Backtest) -> dict[str, Within]:
    """Return the AUC of every method and of the served probabilities."""
    served = CHAMPION if backtest.champion.status == "scored" else FROZEN
    scores = {SERVED: backtest.newest[served]} | {each: backtest.newest[each] for each in backtest.methods}
    return {
        name: {"all": None if each.metrics is None else each.metrics.auc, **each.within}
        for name, each in scores.items()
    }


def _serving(registry: "Registry", name: str) -> str:
    champion = registry.champion(name)
    return FROZEN if champion is None else champion.method


def _about_backbone(registry: "Registry", name: str, window: Window, backtest: Backtest) -> str:
    """Return a sentence on a champion that was fitted for another backbone than the window's."""
    for change in reversed(registry.history(name)):
        noted = change.evidence.get("backbone")
        if noted and noted["window"] == str(window):
            return BackboneChange(**noted).sentence
    return backtest.champion.reason if backtest.champion.status == "other_backbone" else ""


def _with_served(installation: Installation, plan: Plan, backtest: Backtest) -> Entry:
    """Return the window's entry, with the served probabilities beside the methods; not for a first window.

    Platt is refitted on every window with rows, including those that the refresh excluded.
    """
    entry, fold = backtest.entries[-1], backtest.plan.newest
    if entry.hold_out or not entry.nll:
        return entry
    sums = sums_of(entry, fold, plan.files.scores, backtest.champion)
    if any(each["kind"] != BACKBONE for each in plan.excluded):
        sums |= platt_on_all_rows(installation, plan.deployment, plan.window, plan.newest.log)
    return series_entry(entry.window, sums, left_out=entry.left_out)


def sums_of(entry: Entry, fold: Fold, scores: Path, champion: Champion) -> dict[str, UserSums]:
    """Return the users' sums of an entry's methods, and of the served probabilities as the last ones."""
    sums = {method: read_users(score_directory(scores, fold, method)) for method in entry.nll}
    served = CHAMPION if champion.status == "scored" else FROZEN
    return {**sums, SERVED: read_users(score_directory(scores, fold, served))}


def _sentence(verdict: Mapping[str, Any]) -> str:
    """Return the reasons: of the hold, of the change of method, or all of them."""
    reasons = verdict["reasons"]
    if verdict["kind"] != "none" and verdict["verdict"] == "hold":
        reasons = [each for each in reasons if each["effect"] == "hold"]
    elif verdict["kind"] in ("change", "retire"):
        reasons = [each for each in reasons if each["effect"] == "pass" and each["code"] != "renewal"]
    text = "; ".join(each["sentence"] for each in reasons)
    return f"{as_sentence(text)}." if text else ""


# --- windows that no refresh scored ---------------------------------------------------------------------


def entry_of_unscored(
    installation: Installation, name: str, window: Window, champion: ChampionReference | None
) -> Entry | None:
    """Return the entry of a window that no refresh scored, with its served probabilities, or None."""
    settings = installation.deployment(name)
    try:
        if (fold := fold_of_all_rows(installation, name, window)) is None:
            return None
        engine, directory = engine_of(settings.engine), installation.refreshes(name) / SCORES
        methods, served = ladder(settings.methods), Champion()
        scores = score_fold(fold, methods, directory, engine=engine)
        if champion is not None:
            served = compare_champion(FoldPlan((fold,)), champion.read(), directory, engine=engine)
        entry = entry_of(fold, methods, scores, directory)
        sums = sums_of(entry, fold, directory, served)
        return series_entry(window, sums, left_out=entry.left_out)
    except SlcError:  # unreadable rows
        return None


def platt_on_all_rows(
    installation: Installation, name: str, window: Window, test: Path
) -> dict[str, UserSums]:
    """Return weekly Platt on a window, refitted on the last windows with rows, including excluded ones."""
    fold = fold_of_all_rows(installation, name, window)
    if fold is None:
        return {}
    directory = installation.refreshes(name) / SCORES
    fold = replace(fold, test=test, offsets=())
    engine = engine_of(installation.deployment(name).engine)
    score = score_fold(fold, [PLATT], directory, engine=engine)[PLATT]
    return {} if score.metrics is None else {PLATT: read_users(score_directory(directory, fold, PLATT))}


def fold_of_all_rows(installation: Installation, name: str, window: Window) -> Fold | None:
    """Return the window as a fold after the last windows with rows; None if either is missing."""
    settings = installation.deployment(name)
    reach, engine, limit = Reach.of(dict(settings)), engine_of(settings.engine), settings.quality.logit_limit

    def manifest_of(each: Window) -> WindowManifest | None:
        try:
            found = WindowManifest.read(installation.windows(name) / each.key)
        except SlcError:
            return None
        return found if found.rows else None

    def rows_of(manifest: WindowManifest) -> Path:
        """Return the path of the valid rows."""
        if not statistics_of(manifest, limit, engine).failed_rows:
            return manifest.path
        target = manifest.directory / ROWS
        if not target.exists():
            rows = PutAside(manifest.window, limit)
            engine.divide(manifest.path, rows, manifest.directory / BAD, target, ids_repeat=True)
        return target

    newest = manifest_of(window)
    if newest is None:
        return None
    names = set(statistics_of(newest, limit, engine).versions)
    before = []
    for each in window.before(FAR):
        found = manifest_of(each)
        versions = set() if found is None else set(statistics_of(found, limit, engine).versions)
        if found is not None and (not names or not versions or names & versions):
            before.append(rows_of(found))
    if not before:
        return None
    return Fold(window, tuple(before[-reach.link :]), rows_of(newest), tuple(before[-reach.memory :]))
