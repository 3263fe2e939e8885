"""``temperature``: p = σ(η₀/T), T > 0, by maximum likelihood (Guo et al., 2017).

Fitted as the slope a = 1/T without intercept. If the best slope is a ≤ 0 (the score is worse than useless) no
temperature is optimal; a is then set to 1e-6, which is T = 10⁶ and p ≈ ½, with a warning.
"""

from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.link import fit_slope
from slc_ops.methods.fitting.results import fitted
from slc_ops.numerics.curves import Affine
from slc_ops.parameters.parameter_set import ParameterSet

SMALLEST_SLOPE = 1e-6


def fit(calibration: Calibration) -> ParameterSet:
    """Estimate T."""
    slope, warnings = fit_slope(calibration)
    if slope < SMALLEST_SLOPE:
        warnings = (
            *warnings,
            f"the likelihood has its maximum at slope {slope:.4g} ≤ 0; T is held at {1 / SMALLEST_SLOPE:g}",
        )
        slope = SMALLEST_SLOPE
    return fitted(calibration, "temperature", Affine(slope, 0.0), warnings=warnings)
