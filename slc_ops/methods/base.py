"""``base``: the frozen backbone itself, p = σ(η₀). The rung that every other method is measured against."""

from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.results import fitted
from slc_ops.numerics.curves import Affine
from slc_ops.parameters.parameter_set import ParameterSet


def fit(calibration: Calibration) -> ParameterSet:
    """Nothing to estimate."""
    return fitted(calibration, "base", Affine())
