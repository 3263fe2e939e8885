"""``ridge``: the offsets of ``slc`` iterated to convergence (appendix of the paper).

Minimises −Σ log-likelihood of σ(η₀ + bᵢ) + Σ bᵢ²/(2σ_b²). Each row belongs to one item, so the Hessian is
diagonal and every item is a strictly convex problem in one variable, all solved at once:

    bᵢ ← bᵢ + (Σ(y − p) − bᵢ/σ_b²) / (Wᵢ + 1/σ_b²).

A Newton step from saturated logits can overshoot for ever; the gradient's sign tells on which side of bᵢ the
minimum lies, so each item keeps a bracket, and a step that leaves it (after fifteen passes also one that is
not at most half the step before) is replaced by a step to the bracket's middle.
Then the link, with the bᵢ as fixed offsets.
"""

import numpy as np

from slc_ops.correction.calibration import Calibration
from slc_ops.correction.curves import Affine
from slc_ops.correction.kernels import Floats
from slc_ops.correction.link import fit_link
from slc_ops.correction.offsets import ItemOffsets
from slc_ops.correction.parameters import ParameterSet
from slc_ops.correction.slc import static_items
from slc_ops.errors import NotConvergedError

MAX_PASSES = 50
PATIENCE = 15
LAST_STEP = 1e-6  # Newton squares it: what is left behind is below 1e-11


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
    sums = calibration.item_sums
    offset = np.zeros(calibration.n_items)
    # At the minimum b/σ_b² = Σ(y − p) ≤ n·e^(max|η₀| − b), so b ≤ max|η₀| + log(n·σ_b²), or b ≤ 1.
    high = calibration.largest_logit + np.log1p(sums.n / precision) + 1.0
    low = -high
    step = high - low
    for number in range(MAX_PASSES):
        downhill = sums.y - sums.p - precision * offset
        curvature = sums.fisher + precision
        low, high = np.where(downhill > 0, offset, low), np.where(downhill > 0, high, offset)
        proposal = offset + downhill / curvature
        accepted = (proposal >= low) & (proposal <= high)
        if number >= PATIENCE:
            accepted &= np.abs(proposal - offset) <= np.maximum(np.abs(step) / 2, LAST_STEP)
        step = np.where(accepted, proposal, (low + high) / 2) - offset
        offset = offset + step
        if np.max(np.abs(step), initial=0.0) < LAST_STEP:
            return offset, 1.0 / curvature
        sums = calibration.offset_sums(offset)
    raise NotConvergedError(
        f"the item offsets did not converge within {MAX_PASSES} passes (largest step "
        f"{np.max(np.abs(step)):.2g}); look for extreme logits or weights"
    )
