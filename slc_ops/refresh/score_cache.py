"""Folds that an earlier refresh has scored already.

The next refresh scores the same older windows. A score is a function of the fold's rows, the method, its
options and the code, and its cache key names all of them; a score of an earlier refresh under the same key is
reused, and the rows of those windows are not read again. So an entry of the series, once made, never changes,
and the next refresh costs one new fold.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from slc_ops.base.files import digest_json, read_json, replacing_directory
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
from slc_ops.evidence.tuning import Grid
from slc_ops.methods import FitOptions
from slc_ops.refresh.files import SCORES
from slc_ops.refresh.plan import Plan, same_file


def cache_key(plan: Plan, fold: Fold, method: str, options: FitOptions, grid: Grid) -> str:
    """The name of everything that the score of a fold depends on; empty where it has no lasting name."""
    keys = {window.log: window.rows_key for window in plan.windows}
    if fold.test is None:
        return ""
    memory = fold.offsets if method_named(method).long_memory else fold.calibration
    rows: list[Any] = [keys[path] for path in (*memory, fold.test)]
    if plan.earlier and method_named(method).long_memory:
        rows.append([each.rows_key for each in plan.earlier])
    chosen = {
        "prior_var": options.prior_var,
        "time_bins": options.time_bins,
        "engine": plan.settings.get("engine"),
    }
    shape = [len(fold.calibration), fold.window.as_dict()]
    return digest_json([rows, shape, method, chosen, asdict(grid)]) if all(rows) else ""


def reuse(plan: Plan, fold: Fold, method: str, key: str) -> bool:
    """Put an earlier refresh's score under the same cache key in place; False where there is none."""
    target = score_directory(plan.files.scores, fold, method)
    if not key or fold.newest or target.exists():
        return False
    refreshes = plan.directory.parent.parent
    for found in sorted(refreshes.glob(f"*/*/{SCORES}/{fold.key}/{method}/{KEY}")):
        if read_json(found) != key or not (found.parent / USERS).exists():  # an erasure takes users' sums
            continue
        score = Score.from_dict(read_json(found.parent / SCORE))
        if score.error is None:  # an error may have been the day's; the fold is scored again
            with replacing_directory(target) as temporary:
                _same_files(found.parent, temporary)
                write_score(temporary, as_older(score), key)
            return True
    return False


def _same_files(source: Path, target: Path) -> None:
    """Second names for the files that an older window's score needs: users' sums and the fit itself."""
    for path in [source / USERS, *sorted((source / PARAMETERS).glob("*"))]:
        same_file(path, target / path.relative_to(source))
