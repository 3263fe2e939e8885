"""``base``: the frozen backbone itself, p = σ(η₀); the reference of every other method."""

from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.results import fitted
from slc_ops.numerics.curves import Affine
from slc_ops.parameters.parameter_set import ParameterSet


def fit(calibration: Calibration) -> ParameterSet:
    """Return the identity: there is nothing to estimate."""
    return fitted(calibration, "base", Affine())
