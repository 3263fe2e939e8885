"""Reuse fold scores of earlier refreshes.

The next refresh scores the same older windows. A score is a function of the fold's rows, the method, its
options and the code, and its cache key contains all of them; an earlier refresh's score with the same key is
reused, and the rows of those windows are not read again. So an entry of the series never changes, and the
next refresh costs one new fold.
"""

from dataclasses import asdict
from pathlib import Path

from slc_ops.base.digests import digest_json
from slc_ops.base.files import read_json, replacing_directory
from slc_ops.base.methods import method_named
from slc_ops.evidence.folds import Fold
from slc_ops.evidence.scoring import (
    KEY,
    PARAMETERS,
    SCORE,
    USERS,
    Score,
    as_older,
    score_directory,
    write_score,
)
from slc_ops.evidence.tuning import OptionGrid
from slc_ops.methods import FitOptions
from slc_ops.refresh.files import SCORES
from slc_ops.refresh.kept_fits import fit_key
from slc_ops.refresh.plan import Plan, same_file


def cache_key(plan: Plan, fold: Fold, method: str, options: FitOptions, grid: OptionGrid) -> str:
    """Return the cache key of a fold's score; empty if its rows have no key."""
    if fold.test is None:
        return ""
    fit = fold_fit_key(plan, fold, method, options)
    test = next(window.rows_key for window in plan.windows if window.log == fold.test)
    return digest_json([fit, test, fold.window.as_dict(), asdict(grid)]) if fit and test else ""


def fold_fit_key(plan: Plan, fold: Fold, method: str, options: FitOptions) -> str:
    """Return the cache key of a fold's fit under these options."""
    if method_named(method).forgets and fold.older:
        return fit_key(plan, method, options, fold.older, len(fold.calibration), len(fold.offsets))
    memory = fold.offsets if method_named(method).long_memory else fold.calibration
    return fit_key(plan, method, options, memory, len(fold.calibration))


def reuse(plan: Plan, fold: Fold, method: str, key: str) -> bool:
    """Copy an earlier refresh's score with the same cache key; return False without one."""
    target = score_directory(plan.files.scores, fold, method)
    if not key or fold.newest or target.exists():
        return False
    for found in sorted(plan.files.refreshes.glob(f"*/*/{SCORES}/{fold.key}/{method}/{KEY}")):
        if read_json(found) != key or not (found.parent / USERS).exists():  # an erasure deletes sums by user
            continue
        score = Score.from_dict(read_json(found.parent / SCORE))
        if score.error is None:  # an error may have been temporary; the fold is scored again
            with replacing_directory(target) as temporary:
                _same_files(found.parent, temporary)
                write_score(temporary, as_older(score), key)
            return True
    return False


def _same_files(source: Path, target: Path) -> None:
    """Link the files of an older window's score: sums by user and the fit itself."""
    for path in [source / USERS, *sorted((source / PARAMETERS).glob("*"))]:
        same_file(path, target / path.relative_to(source))
