"""``platt_time``: p = σ(a·η₀ + c·t̃ + b₀), t̃ the standardised event time; a test of time without items.

Time is standardised with the calibration window's mean and standard deviation, which belong to the
parameters; later rows have t̃ above the window's range.
"""

from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.link import fit_link
from slc_ops.methods.fitting.results import fitted
from slc_ops.numerics.curves import AffineInTime
from slc_ops.parameters.parameter_set import ParameterSet


def fit(calibration: Calibration) -> ParameterSet:
    """Estimate (a, c, b₀)."""
    link = fit_link(calibration, time=True)
    line = AffineInTime(link.a, link.b0, link.c, *calibration.time_moments)
    return fitted(calibration, "platt_time", line, warnings=link.warnings)
