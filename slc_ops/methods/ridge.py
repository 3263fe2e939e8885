"""``ridge``: the offsets of ``slc`` iterated to convergence (appendix of the paper).

Minimises −Σ log-likelihood of σ(η₀ + bᵢ) + Σ bᵢ²/(2σ_b²). Each row belongs to one item, so the Hessian is
diagonal and every item is a strictly convex problem in one variable, all solved at once: with g = Σ(y − p) −
bᵢ/σ_b², h = Wᵢ + 1/σ_b² and T = Σp(1 − p)(1 − 2p), Halley's step

    bᵢ ← bᵢ + 2gh / (2h² + gT).

A pass over the rows is dear, so it brings T too: |T| and the next derivative are at most h, hence a step of
length s leaves at most 5/12·s³ behind. The first step needs no T: an item's rows are taken for n equal ones
with the same Σp and, in b, the same slope Wᵢ, and that model is solved. An item whose step is small enough is
settled, and later passes look at the rows of the others only.

A step from saturated logits can overshoot for ever; the gradient's sign tells on which side of bᵢ the minimum
lies, so each item keeps a bracket, and a step that leaves it (after fifteen passes also one that is not at
most half the step before) is replaced by a step to the bracket's middle.
Then the link, with the bᵢ as fixed offsets.
"""

import numpy as np

from slc_ops.base.errors import NotConvergedError
from slc_ops.methods.slc import static_items
from slc_ops.numerics.calibration import Calibration
from slc_ops.numerics.curves import Affine
from slc_ops.numerics.kernels import Floats, Sums, sigmoid
from slc_ops.numerics.link import fit_link
from slc_ops.numerics.offsets import ItemOffsets
from slc_ops.parameters.parameter_set import ParameterSet

MAX_PASSES = 50
PATIENCE = 15
LAST_STEP = 2e-4  # what is left behind is below 1e-11
NO_STEP = 1e-11
MODEL_STEPS = 8


def fit(calibration: Calibration) -> ParameterSet:
    """Offsets to convergence, then the link."""
    calibration.require_two_classes()
    offset, variance = converged_offsets(calibration)
    link = fit_link(calibration, ItemOffsets(offset))
    return ParameterSet(
        method="ridge",
        link=Affine(link.a, link.b0),
        items=static_items(calibration, offset, variance),
        prior_var=calibration.options.prior_var,
        n_rows=calibration.log.n_rows,
        n_items=calibration.n_items,
        warnings=link.warnings,
    )


def converged_offsets(calibration: Calibration) -> tuple[Floats, Floats]:
    """bᵢ at the minimum and the inverse curvature there."""
    precision = 1.0 / calibration.options.prior_var
    start = calibration.item_sums
    p, fisher, skew = start.p.copy(), start.fisher.copy(), np.zeros(calibration.n_items)
    offset = np.zeros(calibration.n_items)
    # At the minimum b/σ_b² = Σ(y − p) ≤ n·e^(max|η₀| − b), so b ≤ max|η₀| + log(n·σ_b²), or b ≤ 1.
    high = calibration.largest_logit + np.log1p(start.n / precision) + 1.0
    low = -high
    step = high - low
    moving = np.ones(calibration.n_items, np.bool_)
    for number in range(MAX_PASSES):
        downhill = start.y - p - precision * offset
        curvature = fisher + precision
        low, high = np.where(downhill > 0, offset, low), np.where(downhill > 0, high, offset)
        if number == 0:
            proposal = _as_if_rows_were_equal(start, precision)
        else:
            # Never further than twice Newton's step.
            bent = np.maximum(2.0 * curvature**2 + downhill * skew, curvature**2)
            proposal = offset + 2.0 * downhill * curvature / bent
        accepted = (proposal >= low) & (proposal <= high)
        if number >= PATIENCE:
            accepted &= np.abs(proposal - offset) <= np.maximum(np.abs(step) / 2, LAST_STEP)
        step = np.where(moving, np.where(accepted, proposal, (low + high) / 2) - offset, 0.0)
        offset = offset + step
        fisher += skew * step
        moving &= ~(np.abs(step) < np.where(accepted & (number > 0), LAST_STEP, NO_STEP))
        if not moving.any():
            return offset, 1.0 / (fisher + precision)
        # Choosing rows costs something too: it pays where less than half of them are left.
        few = float(start.n[moving].sum()) < 0.5 * calibration.total_weight
        sums = calibration.offset_sums(offset, moving if few else np.ones_like(moving))
        p, fisher, skew = (
            np.where(moving, new, old) for new, old in zip(sums, (p, fisher, skew), strict=True)
        )
    raise NotConvergedError(
        f"the item offsets did not converge within {MAX_PASSES} passes (largest step "
        f"{np.max(np.abs(step)):.2g}); look for extreme logits or weights"
    )


def _as_if_rows_were_equal(sums: Sums, precision: float) -> Floats:
    """The offset of n rows with p = σ(x + κb) each, of the same Σp and the same slope Σp(1 − p) at b = 0."""
    share = np.clip(
        np.divide(sums.p, sums.n, out=np.full(len(sums.n), 0.5), where=sums.n > 0), 1e-12, 1 - 1e-12
    )
    x = np.log(share) - np.log1p(-share)
    slope = sums.fisher / np.maximum(sums.n * share * (1.0 - share), 1e-300)
    offset = np.zeros(len(share))
    for _ in range(MODEL_STEPS):
        p = sigmoid(x + slope * offset)
        downhill = sums.y - sums.n * p - precision * offset
        offset += np.clip(downhill / (slope * sums.n * p * (1.0 - p) + precision), -1.0, 1.0)
    return offset
