"""``slc_t``: ``slc`` with temporal tracking, δᵢ(t) = bᵢ + uᵢ(t) (Section 3.4).

Each (item, bin) cell with Fisher weight W ≥ 1 gives a pseudo-observation z = Σ(y − p)/W with variance 1/W.
The static bᵢ of ``slc`` is subtracted, the rest is smoothed as a random walk with q = 0.01 and P₀ = σ_b²; an
item without any such cell has u = 0. Then the link is fitted, with δᵢ(t) as fixed offsets. Rows after the
last edge (and rows without a time) use the last bin.

``offset_var`` is the smoothed variance of u, with bᵢ plugged in (the posterior variance of bᵢ if u = 0);
``shrinkage`` is the share of the random walk's prior variance that the data removed.
"""

import numpy as np

from slc_ops.methods.fitting.calibration import Calibration, ItemOffsets
from slc_ops.methods.fitting.link import fit_link
from slc_ops.methods.fitting.results import fitted, item_effect
from slc_ops.methods.slc import static_offsets
from slc_ops.numerics.kernels import Floats, Sums
from slc_ops.numerics.smoother import smooth
from slc_ops.parameters.parameter_set import ParameterSet

PROCESS_VAR = 0.01
MIN_FISHER = 1.0


def fit(calibration: Calibration) -> ParameterSet:
    """Estimate static offsets, smoothed deviations and the link."""
    calibration.require_two_classes()
    prior_var = calibration.options.prior_var
    offset, variance = tracked_offsets(calibration, prior_var)
    link = fit_link(calibration, ItemOffsets(offset, calibration.time_edges))
    prior = prior_var + PROCESS_VAR * np.arange(1, calibration.n_bins + 1)
    items = item_effect(calibration, offset, variance, 1.0 - variance / prior, prior_var)
    return fitted(calibration, "slc_t", link, items)


def tracked_offsets(calibration: Calibration, prior_var: float) -> tuple[Floats, Floats]:
    """Return δ and its variance, items in rows, bins in columns."""
    cells = calibration.cell_sums
    static, static_var = static_offsets(calibration.item_sums, prior_var)
    z, W = pseudo_observations(cells, calibration.n_bins)
    seen = W >= MIN_FISHER
    level, variance = smooth(z - static[:, None], W, seen, q=PROCESS_VAR, P0=prior_var)
    tracked = seen.any(axis=1, keepdims=True)
    offset = static[:, None] + np.where(tracked, level, 0.0)
    return offset, np.where(tracked, variance, static_var[:, None])


def pseudo_observations(cells: Sums, bins: int) -> tuple[Floats, Floats]:
    """Return z and W of every cell, items in rows, bins in columns; z is 0 if W is."""
    W = cells.fisher.reshape(-1, bins)
    score = (cells.y - cells.p).reshape(-1, bins)
    return np.divide(score, W, out=np.zeros_like(W), where=W > 0), W
