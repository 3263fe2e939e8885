"""``isotonic``: the non-decreasing map of p that fits the labels best (Zadrozny and Elkan, 2002)."""

from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.monotone import fit_isotonic
from slc_ops.parameters.parameter_set import ParameterSet


def fit(calibration: Calibration) -> ParameterSet:
    """Estimate the map."""
    return ParameterSet(
        method="isotonic",
        link=fit_isotonic(calibration),
        n_rows=calibration.log.n_rows,
        n_items=calibration.n_items,
    )
