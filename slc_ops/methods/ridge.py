"""``ridge``: the offsets of ``slc`` iterated to convergence (appendix of the paper).

Minimises −Σ log-likelihood of σ(η₀ + bᵢ) + Σ bᵢ²/(2σ_b²) over the offsets
(:mod:`slc_ops.methods.fitting.offset_newton`), then fits the link, with the bᵢ as fixed offsets.
"""

from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.link import fit_link
from slc_ops.methods.fitting.offset_newton import converged_offsets
from slc_ops.methods.fitting.offsets import ItemOffsets
from slc_ops.methods.slc import static_items
from slc_ops.numerics.curves import Affine
from slc_ops.parameters.parameter_set import ParameterSet


def fit(calibration: Calibration) -> ParameterSet:
    """Offsets to convergence, then the link."""
    calibration.require_two_classes()
    offset, variance = converged_offsets(calibration)
    link = fit_link(calibration, ItemOffsets(offset))
    return ParameterSet(
        method="ridge",
        link=Affine(link.a, link.b0),
        items=static_items(calibration, offset, variance),
        prior_var=calibration.options.prior_var,
        n_rows=calibration.log.n_rows,
        n_items=calibration.n_items,
        warnings=link.warnings,
    )
