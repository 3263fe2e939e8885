"""``slc_iso``: the offsets of ``slc`` under an isotonic link, p̂ = g(σ(η₀ + bᵢ)) (Section 3.6)."""

from slc_ops.methods.fitting.calibration import Calibration, ItemOffsets
from slc_ops.methods.fitting.monotone import fit_isotonic
from slc_ops.methods.slc import static_items, static_offsets
from slc_ops.parameters.effects import by_item
from slc_ops.parameters.parameter_set import ParameterSet


def fit(calibration: Calibration) -> ParameterSet:
    """Offsets in one pass, then the monotone map."""
    calibration.require_two_classes()
    prior_var = calibration.options.prior_var
    offset, variance = static_offsets(calibration.item_sums, prior_var)
    return ParameterSet(
        method="slc_iso",
        link=fit_isotonic(calibration, ItemOffsets(offset)),
        effects=by_item(static_items(calibration, offset, variance), prior_var),
        n_rows=calibration.log.n_rows,
        n_items=calibration.n_items,
    )
