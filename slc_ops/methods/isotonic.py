"""``isotonic``: the non-decreasing map of p that fits the labels best (Zadrozny and Elkan, 2002)."""

from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.monotone import fit_isotonic
from slc_ops.methods.fitting.results import fitted
from slc_ops.parameters.parameter_set import ParameterSet


def fit(calibration: Calibration) -> ParameterSet:
    """Estimate the map."""
    return fitted(calibration, "isotonic", fit_isotonic(calibration))
