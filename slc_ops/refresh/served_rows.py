"""Served results of every window with rows: the part of a replay that a refresh omits.

A refresh makes no entry for a window that validation stops, and its methods use no windows that were stopped
or held. All of these were served. Here they are scored, too: each method, and weekly Platt in particular, is
fitted on the last windows with rows, stopped or not, and the champion is scored beside them.
"""

from dataclasses import replace
from pathlib import Path

from slc_ops.base.errors import SlcError
from slc_ops.base.methods import ladder
from slc_ops.base.window import Window
from slc_ops.evidence.backtest import entry_of
from slc_ops.evidence.fold_rows import FoldRows
from slc_ops.evidence.folds import Fold
from slc_ops.evidence.replayed import SERVED
from slc_ops.evidence.scoring import read_users, score_champion, score_directory, score_fold
from slc_ops.evidence.series import Entry, paired
from slc_ops.evidence.uncertainty import UserSums
from slc_ops.intake.manifest import WindowManifest
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.quality.quarantine import PutAside
from slc_ops.quality.statistics import statistics_of
from slc_ops.refresh.champion import ChampionReference
from slc_ops.refresh.window_rules import Reach
from slc_ops.rows.engine import engine_of
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.environment import Installation

SCORES, ROWS, BAD = "served-scores", "served.parquet", "served-bad.parquet"
FAR = 52
"""Number of windows to search for the last ones with rows."""


def entry_of_unscored(
    installation: Installation, name: str, window: Window, champion: ChampionReference | None
) -> Entry | None:
    """Return the entry of a window that no refresh scored, with its served probabilities, or None."""
    settings = installation.deployment(name)
    try:
        if (fold := fold_of_all_rows(installation, name, window)) is None:
            return None
        served = None if champion is None else champion.read()
        engine, directory = engine_of(settings.engine), installation.refreshes(name) / SCORES
        methods = ladder(settings.methods)
        scores = score_fold(fold, methods, directory, engine=engine)
        entry = entry_of(fold, methods, scores, directory)
        if served is not None and applies(served, fold, settings):
            score_champion(FoldRows(fold, engine), served, directory)
        else:
            served = None
        sums = {method: read_users(score_directory(directory, fold, method)) for method in entry.nll}
        what = sums["base"] if served is None else read_users(score_directory(directory, fold, "champion"))
        return with_served(entry, sums, what)
    except SlcError:  # unreadable rows
        return None


def applies(champion: ParameterSet, fold: Fold, settings: Deployment) -> bool:
    """Return True if a server would have applied a champion to a window's rows."""
    fitted, found = champion.provenance.backbone_version, FoldRows(fold).test.backbone_versions
    return not (fitted and found and fitted not in found)


def platt_on_all_rows(installation: Installation, name: str, window: Window, test: Path) -> UserSums | None:
    """Return weekly Platt on a window, refitted on the last windows with rows, including excluded ones."""
    fold = fold_of_all_rows(installation, name, window)
    if fold is None:
        return None
    directory = installation.refreshes(name) / SCORES
    fold = replace(fold, test=test, offsets=())
    score = score_fold(fold, ["platt"], directory, engine=engine_of(installation.deployment(name).engine))[
        "platt"
    ]
    return None if score.metrics is None else read_users(score_directory(directory, fold, "platt"))


def with_served(entry: Entry, sums: dict[str, UserSums], served: UserSums) -> Entry:
    """Return the entry with the served probabilities beside the methods."""
    return replace(
        entry,
        nll={**entry.nll, SERVED: float(served.means["nll"].sum()) / entry.weight},
        against={**entry.against, SERVED: {method: paired(served, each) for method, each in sums.items()}},
    )


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
