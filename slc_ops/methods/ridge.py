"""``ridge``: the offsets of ``slc`` iterated to convergence (appendix of the paper).

Minimises −Σ log-likelihood of σ(η₀ + bᵢ) + Σ bᵢ²/(2σ_b²) over the offsets: the model of ``slc_eb`` with the
link fixed at a = 1, b₀ = 0. Then fits the link, with the bᵢ as fixed offsets.
"""

import numpy as np

from slc_ops.methods.fitting.calibration import Calibration, ItemOffsets
from slc_ops.methods.fitting.link import fit_link
from slc_ops.methods.fitting.results import fitted
from slc_ops.methods.slc import static_items
from slc_ops.methods.slc_eb import joint_model
from slc_ops.numerics.kernels import Floats, homogeneous_offsets
from slc_ops.numerics.newton import State
from slc_ops.parameters.parameter_set import ParameterSet

LAST_STEP = 1e-9  # so that the curvature is also that of the minimum


def fit(calibration: Calibration) -> ParameterSet:
    """Estimate the offsets to convergence, then the link."""
    calibration.require_two_classes()
    offset, variance = converged_offsets(calibration)
    link = fit_link(calibration, ItemOffsets(offset))
    return fitted(calibration, "ridge", link, static_items(calibration, offset, variance))


def converged_offsets(calibration: Calibration) -> tuple[Floats, Floats]:
    """Return bᵢ at the minimum and the inverse curvature there."""
    variance, model = calibration.options.prior_var, joint_model(calibration)
    _, mean, spread = model.terms.covariates[0]
    offset = homogeneous_offsets(calibration.item_sums, np.zeros(calibration.n_items), 1.0 / variance)
    start = model.visit(State(np.array([spread, mean]), offset))
    near = model.minimise(start, variance, free=False, last_step=LAST_STEP).near
    # This step needs no pass, even if the last one gained nothing.
    return near.state.moved(near.step()[0]).offset, 1.0 / near.diagonal
