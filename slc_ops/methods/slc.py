"""``slc``: the paper's static State-space Logit Correction (Eq. 5, Algorithm 1).

One Newton step from 0 under the working model p = σ(η₀ + bᵢ), bᵢ ~ N(0, σ_b²),

    bᵢ = Σ(y − p) / (1/σ_b² + Wᵢ),    Wᵢ = Σ p(1 − p),

then the link (a, b₀) with the bᵢ as fixed offsets: p̂ = σ(a·η₀ + b₀ + bᵢ). The shrinkage λᵢ = Wᵢ/(1/σ_b² + Wᵢ)
is near 0 for items with few rows and near 1 for items with many; 1/(1/σ_b² + Wᵢ) is the posterior variance.
Time bins play no part: summing the cells of an item is summing its rows.
"""

from slc_ops.methods.fitting.calibration import Calibration, ItemOffsets
from slc_ops.methods.fitting.link import fit_link
from slc_ops.methods.fitting.results import fitted, item_effect
from slc_ops.numerics.kernels import Floats, Sums
from slc_ops.parameters.effects import Effect
from slc_ops.parameters.parameter_set import ParameterSet


def fit(calibration: Calibration) -> ParameterSet:
    """Estimate the offsets in one pass, then the link."""
    calibration.require_two_classes()
    offset, variance = static_offsets(calibration.item_sums, calibration.options.prior_var)
    link = fit_link(calibration, ItemOffsets(offset))
    return fitted(calibration, "slc", link, static_items(calibration, offset, variance))


def static_offsets(sums: Sums, prior_var: float) -> tuple[Floats, Floats]:
    """Return bᵢ and its posterior variance.

    >>> import numpy as np
    >>> sums = Sums(n=np.array([4.0]), y=np.array([3.0]), p=np.array([2.0]), fisher=np.array([1.0]))
    >>> [values.tolist() for values in static_offsets(sums, prior_var=1.0)]
    [[0.5], [0.5]]
    """
    variance = 1.0 / (1.0 / prior_var + sums.fisher)
    return (sums.y - sums.p) * variance, variance


def static_items(calibration: Calibration, offset: Floats, variance: Floats) -> Effect:
    """Return the effect of static offsets with their posterior variances; λ = 1 − variance/σ_b²."""
    prior_var = calibration.options.prior_var
    return item_effect(calibration, offset, variance, 1.0 - variance / prior_var, prior_var)
