"""``rescal``: match each item's mean prediction to its mean label, for items with enough rows.

    δᵢ = (logit(mean y) − logit(mean p)) · n/(n + 50)   for n ≥ 50, else 0;    p̂ = σ(η₀ + δᵢ)

Rates are clipped to [1e-6, 1 − 1e-6] before taking their logit. n is the sum of the weights. ``offset_var``
is the sampling variance of δᵢ by the delta method; items below the minimum have none.
"""

import numpy as np

from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.results import fitted, item_effect
from slc_ops.numerics.curves import Affine
from slc_ops.numerics.kernels import Floats
from slc_ops.parameters.effects import Effect
from slc_ops.parameters.parameter_set import ParameterSet

MIN_COUNT = 50.0
TAU = 50.0
RATE_FLOOR = 1e-6


def fit(calibration: Calibration) -> ParameterSet:
    """Match the rates of each item."""
    calibration.require_two_classes()
    return fitted(calibration, "rescal", Affine(), rescal_items(calibration)[1])


def rescal_items(calibration: Calibration) -> tuple[Floats, Effect]:
    """Return δ per item code, and the effect."""
    sums = calibration.item_sums
    enough, n = sums.n >= MIN_COUNT, np.maximum(sums.n, MIN_COUNT)
    gap = _logit(sums.y / n) - _logit(sums.p / n)
    offset = np.where(enough, gap * n / (n + TAU), 0.0)
    shrinkage = np.where(enough, n / (n + TAU), 0.0)
    rate = np.clip(sums.y / n, RATE_FLOOR, 1 - RATE_FLOOR)
    variance = np.square(shrinkage) / (n * rate * (1 - rate))
    return offset, item_effect(calibration, offset, np.where(enough, variance, np.nan), shrinkage)


def _logit(rate: Floats) -> Floats:
    clipped = np.clip(rate, RATE_FLOOR, 1 - RATE_FLOOR)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))
