"""``slc_iso``: the offsets of ``slc`` under an isotonic link, p̂ = g(σ(η₀ + bᵢ)) (Section 3.6)."""

from slc_ops.methods.fitting.calibration import Calibration, ItemOffsets
from slc_ops.methods.fitting.monotone import fit_isotonic
from slc_ops.methods.fitting.results import fitted
from slc_ops.methods.slc import static_items, static_offsets
from slc_ops.parameters.parameter_set import ParameterSet


def fit(calibration: Calibration) -> ParameterSet:
    """Estimate the offsets in one pass, then the monotone map."""
    calibration.require_two_classes()
    offset, variance = static_offsets(calibration.item_sums, calibration.options.prior_var)
    link = fit_isotonic(calibration, ItemOffsets(offset))
    return fitted(calibration, "slc_iso", link, static_items(calibration, offset, variance))
