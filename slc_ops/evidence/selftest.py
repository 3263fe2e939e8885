"""Self-tests that ride along: a result that contradicts the mathematics stops the run.

Platt and temperature scaling with a positive slope are strictly increasing in the logit, so they cannot
change the AUC (the paper's Lemma 1). They can in floating point, where different logits round to the same
probability (σ(40) = 1): such a pair counts ½ instead of 0 or 1. So the tolerance is 1e-9 plus half the share
of the pairs that are tied in probability but not in the logits, which is all that rounding can do.
"""

from slc_ops.base.errors import SelfTestFailed
from slc_ops.base.methods import METHODS
from slc_ops.evidence.metrics import METRICS
from slc_ops.evidence.scoring import Score

TOLERANCE = 1e-9


def check_scored(score: Score) -> None:
    """The newest window must be scored: without it there is nothing to decide on."""
    if score.error is not None:
        raise SelfTestFailed(f"fold {score.fold} cannot be scored: {score.error}")


def check_ranges(score: Score) -> None:
    """Every metric lies where its definition puts it."""
    if score.metrics is None:
        return
    for name, metric in METRICS.items():
        value, (low, high) = score.metrics[name], metric.range
        if value is not None and not low - 1e-12 <= value <= high + 1e-9:
            raise SelfTestFailed(
                f"{name} of {score.method} on fold {score.fold} is {value}, outside [{low:g}, {high:g}]"
            )


def check_invariance(base: Score, score: Score) -> None:
    """A strictly increasing method (Platt with a positive slope, temperature) keeps the AUC of ``base``."""
    method = METHODS.get(score.method)  # the champion's score has no entry of its own
    if method is None or not method.monotone or (score.slope is not None and score.slope <= 0):
        return
    before, after = base.metrics, score.metrics
    if before is None or after is None or before.auc is None or after.auc is None:
        return
    natural = base.tied_logits or 0.0
    rounded_away = max(before.tied - natural, 0.0) + max(after.tied - natural, 0.0)
    if abs(after.auc - before.auc) > TOLERANCE + rounded_away / 2:
        raise SelfTestFailed(
            f"{score.method} changed the AUC on fold {score.fold} from {before.auc:.9f} to {after.auc:.9f}; "
            "an increasing map of one score cannot: the data or the code is broken"
        )
