"""``naive``: per (item, bin) the running average of the pseudo-observations; no prior, no smoothing, no link.

    δ_{i,t} = mean of z_{i,s} over the bins s ≤ t that have rows,   z = Σ(y − p)/W;    p̂ = σ(η₀ + δ_{i,t})

The average is unweighted: a bin with one row counts as much as a bin with a thousand. This makes it naive,
and the baseline for the shrinkage of ``slc``. Bins before the item's first row have δ = 0; rows after the
last edge (and rows without a time) use the last bin. Cells whose Fisher weight is below 1e-9 (saturated
logits) give no observation.
"""

import numpy as np

from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.results import fitted, item_effect
from slc_ops.methods.slc_t import pseudo_observations
from slc_ops.numerics.curves import Affine
from slc_ops.parameters.parameter_set import ParameterSet

SMALLEST_FISHER = 1e-9


def fit(calibration: Calibration) -> ParameterSet:
    """Average the pseudo-observations of each item over its bins."""
    calibration.require_two_classes()
    z, W = pseudo_observations(calibration.cell_sums, calibration.n_bins)
    seen = W >= SMALLEST_FISHER
    count = np.cumsum(seen, axis=1)
    offset = np.cumsum(np.where(seen, z, 0.0), axis=1) / np.maximum(count, 1)
    noise = np.divide(1.0, W, out=np.zeros_like(W), where=seen)
    variance = np.cumsum(noise, axis=1) / np.square(np.maximum(count, 1))
    shrinkage = np.where(count > 0, 1.0, 0.0)
    items = item_effect(calibration, offset, np.where(count > 0, variance, np.nan), shrinkage)
    return fitted(calibration, "naive", Affine(), items)
