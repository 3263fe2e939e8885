"""Folds that an earlier refresh has scored already.

Next week's refresh scores the same older weeks. A score is a function of the fold's rows, the method, its
options and the code, and its cache key names all of them; a score of an earlier refresh under the same key is
reused, and the rows of those weeks are not read again. Last week's newest window, on which the choice was
confirmed, is one of this week's choosing folds: its score is reused without what only a confirmation needs.
"""

from dataclasses import asdict

from slc_ops.base.files import digest_json, read_json, replacing_directory
from slc_ops.evidence.folds import Fold
from slc_ops.evidence.scoring import KEY, SCORE, Score, for_choosing, score_directory, write_score
from slc_ops.evidence.tuning import Grid
from slc_ops.methods import FitOptions
from slc_ops.refresh.files import SCORES
from slc_ops.refresh.plan import Plan


def cache_key(plan: Plan, fold: Fold, method: str, options: FitOptions, grid: Grid) -> str:
    """The name of everything that the score of a fold depends on; empty where it has no lasting name."""
    keys = {window.log: window.rows_key for window in plan.windows}
    if fold.test is None or fold.hold_out:
        return ""
    rows = [keys[path] for path in (*fold.calibration, fold.test)]
    chosen = {
        "prior_var": options.prior_var,
        "time_bins": options.time_bins,
        "engine": plan.settings.get("engine"),
    }
    return digest_json([rows, fold.window.as_dict(), method, chosen, asdict(grid)]) if all(rows) else ""


def reuse(plan: Plan, fold: Fold, method: str, key: str) -> bool:
    """Put an earlier refresh's score under the same cache key in place; False where there is none."""
    target = score_directory(plan.files.scores, fold, method)
    if not key or fold.role == "confirm" or target.exists():
        return False
    refreshes = plan.directory.parent.parent
    for found in sorted(refreshes.glob(f"*/*/{SCORES}/*-{fold.window.key}/{method}/{KEY}")):
        if read_json(found) != key:
            continue
        score = Score.from_dict(read_json(found.parent / SCORE))
        if score.error is None:  # an error may have been the day's; the fold is scored again
            with replacing_directory(target) as temporary:
                write_score(temporary, for_choosing(score, fold), key)
            return True
    return False
