"""``rescal_iso``: an isotonic map on top of ``rescal``, the strong per-item baseline of the paper."""

from slc_ops.methods.fitting.calibration import Calibration, ItemOffsets
from slc_ops.methods.fitting.monotone import fit_isotonic
from slc_ops.methods.fitting.results import fitted
from slc_ops.methods.rescal import rescal_items
from slc_ops.parameters.parameter_set import ParameterSet


def fit(calibration: Calibration) -> ParameterSet:
    """Estimate the rate-matching offsets, then the monotone map of σ(η₀ + δᵢ)."""
    calibration.require_two_classes()
    offset, items = rescal_items(calibration)
    return fitted(calibration, "rescal_iso", fit_isotonic(calibration, ItemOffsets(offset)), items)
