"""Folds that an earlier refresh has scored already.

Next week's refresh walks over the same older weeks. A score is a function of the fold's rows, the method, its
options and the code; where an earlier refresh answered the same *question*, its answer is taken over, and the
rows of those weeks are not read again. Last week's newest window, on which the choice was confirmed, is one
of this week's choosing folds: its score is taken over without what only a confirmation needs.
"""

from dataclasses import asdict
from pathlib import Path

from slc_ops.base.files import digest_json, read_json, replacing_directory
from slc_ops.evidence.folds import Fold
from slc_ops.evidence.scoring import QUESTION, Score, for_choosing, write_score
from slc_ops.evidence.tuning import Grid
from slc_ops.methods import FitOptions
from slc_ops.refresh.plan import Plan


def question_of(plan: Plan, fold: Fold, method: str, options: FitOptions, grid: Grid) -> str:
    """The name of everything that the score of a fold depends on; empty where it has no lasting name."""
    keys = {window.log: window.rows_key for window in plan.windows}
    if fold.test is None or fold.hold_out:
        return ""
    rows = [keys[path] for path in (*fold.calibration, fold.test)]
    asked = {
        "prior_var": options.prior_var,
        "time_bins": options.time_bins,
        "engine": plan.settings.get("engine"),
    }
    return digest_json([rows, fold.window.as_dict(), method, asked, asdict(grid)]) if all(rows) else ""


def take_over(plan: Plan, fold: Fold, method: str, scores: Path, question: str) -> bool:
    """Put an earlier refresh's answer to the question in place; False where there is none."""
    place = scores / fold.key / method
    if not question or fold.role == "confirm" or place.exists():
        return False
    refreshes = plan.directory.parent.parent
    for found in sorted(refreshes.glob(f"*/*/scores/*-{fold.window.key}/{method}/{QUESTION}")):
        if read_json(found) != question:
            continue
        score = Score.from_dict(read_json(found.parent / "score.json"))
        if score.error is None:  # an error may have been the day's; it is looked at again
            with replacing_directory(place) as temporary:
                write_score(temporary, for_choosing(score, fold), question)
            return True
    return False
