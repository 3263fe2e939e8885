"""Reuse fits and fold scores of earlier refreshes.

A refresh publishes its method fitted on the windows up to the newest one. A week later the newest fold has
the same windows, and the same method fitted on them gives the same parameter set to the last bit; so the set
is read, and the rows are not. The next refresh also scores the same older windows; so an entry of the series
never changes, and the next refresh costs one new fold.

A fit is a function of its rows, the method, its options and the code; a score also of the test rows. Their
keys, digests of all of these, are stored beside them. An unreadable fit counts as absent.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from slc_ops.base.digests import digest_json
from slc_ops.base.errors import SlcError
from slc_ops.base.files import read_json, replacing_directory, write_json
from slc_ops.base.methods import method_named
from slc_ops.evidence.folds import Fold
from slc_ops.evidence.scoring import (
    KEY,
    PARAMETERS,
    SCORE,
    USERS,
    Fitted,
    Score,
    as_older,
    score_directory,
    write_score,
)
from slc_ops.evidence.tuning import OptionGrid
from slc_ops.methods import FitOptions
from slc_ops.parameters.parameter_set import ParameterSet, Provenance
from slc_ops.refresh.files import SCORES
from slc_ops.refresh.plan import Plan, same_file

SUFFIX = "-key.json"


def fit_key(
    plan: Plan, method: str, options: FitOptions, windows: Sequence[Path], links: int, chosen_on: int = 0
) -> str:
    """Return the cache key of a fit.

    ``windows`` are all windows of the method's fit, the last ``links`` of them those of its link; a method
    that forgets chooses its blocks on the last ``chosen_on``.
    """
    planned, known = {window.log: window for window in plan.windows}, method_named(method)
    rows: list[Any] = [planned[path].rows_key for path in windows]
    chosen: dict[str, Any] = {
        "prior_var": options.prior_var,
        "time_bins": options.time_bins,
        "engine": plan.settings["engine"],
    }
    if known.long_memory:  # the time between windows counts
        rows += [[each.rows_key for each in plan.earlier]] if plan.earlier else []
        chosen["windows"] = [planned[path].window.key for path in windows]
    if known.forgets:
        chosen |= {"effects": options.effects, "forget": [chosen_on, plan.settings["forget"]]}
    return digest_json([rows, links, method, chosen])


def fold_fit_key(plan: Plan, fold: Fold, method: str, options: FitOptions) -> str:
    """Return the cache key of a fold's fit under these options."""
    if method_named(method).forgets and fold.older:
        return fit_key(plan, method, options, fold.older, len(fold.calibration), len(fold.offsets))
    memory = fold.offsets if method_named(method).long_memory else fold.calibration
    return fit_key(plan, method, options, memory, len(fold.calibration))


def keep_key(parameters: Path, key: str, seconds: float) -> None:
    """Store the key of the fit in ``parameters``."""
    write_json(_beside(parameters), {"key": key, "seconds": seconds})


def forget_key(parameters: Path) -> None:
    """Delete the key before other parameters replace the fit."""
    _beside(parameters).unlink(missing_ok=True)


def _beside(parameters: Path) -> Path:
    return parameters.with_name(parameters.name + SUFFIX)


def kept_fit(plan: Plan, method: str, key: str) -> Fitted | None:
    """Return an earlier refresh's fit under this key, without its provenance, or None."""
    for path in sorted(plan.files.refreshes.glob(f"*/*/*parameters{SUFFIX}"), reverse=True):
        with suppress(SlcError, OSError, ValueError, KeyError, TypeError):
            found = read_json(path)
            if found["key"] == key:
                known = ParameterSet.read(path.with_name(path.name.removesuffix(SUFFIX)))
                if known.method == method:
                    origin = Provenance(prior_mean=known.provenance.prior_mean)
                    return Fitted(replace(known, provenance=origin), float(found["seconds"]))
    return None


def score_key(plan: Plan, fold: Fold, method: str, options: FitOptions, grid: OptionGrid) -> str:
    """Return the cache key of a fold's score; empty if its test rows are part of a window."""
    if fold.test is None:
        return ""
    test = next(window.rows_key for window in plan.windows if window.log == fold.test)
    return digest_json([fold_fit_key(plan, fold, method, options), test, fold.window.as_dict(), asdict(grid)])


def reuse_score(plan: Plan, fold: Fold, method: str, key: str) -> bool:
    """Copy an earlier refresh's score with the same key; return False without one."""
    target = score_directory(plan.files.scores, fold, method)
    if not key or fold.newest or target.exists():
        return False
    for found in sorted(plan.files.refreshes.glob(f"*/*/{SCORES}/{fold.key}/{method}/{KEY}")):
        if read_json(found) != key or not (found.parent / USERS).exists():  # an erasure deletes sums by user
            continue
        score = Score.from_dict(read_json(found.parent / SCORE))
        if score.error is None:  # an error may have been temporary; the fold is scored again
            with replacing_directory(target) as temporary:
                for path in [found.parent / USERS, *sorted((found.parent / PARAMETERS).glob("*"))]:
                    same_file(path, temporary / path.relative_to(found.parent))
                write_score(temporary, as_older(score), key)
            return True
    return False
