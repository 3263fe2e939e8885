"""``slc``: the paper's static State-space Logit Correction (Eq. 5, Algorithm 1).

One Newton step from 0 under the working model p = σ(η₀ + bᵢ), bᵢ ~ N(0, σ_b²),

    bᵢ = Σ(y − p) / (1/σ_b² + Wᵢ),    Wᵢ = Σ p(1 − p),

then the link (a, b₀) with the bᵢ as fixed offsets: p̂ = σ(a·η₀ + b₀ + bᵢ). The shrinkage λᵢ = Wᵢ/(1/σ_b² + Wᵢ)
is near 0 for items with few rows and near 1 for items with many; 1/(1/σ_b² + Wᵢ) is the posterior variance.
Time bins play no part: summing the cells of an item is summing its rows.
"""

import pyarrow as pa

from slc_ops.methods.fitting.calibration import Calibration, ItemOffsets
from slc_ops.methods.fitting.link import fit_link
from slc_ops.methods.item_tables import item_table
from slc_ops.numerics.curves import Affine
from slc_ops.numerics.kernels import Floats, Sums
from slc_ops.parameters.effects import by_item
from slc_ops.parameters.parameter_set import ParameterSet


def fit(calibration: Calibration) -> ParameterSet:
    """Offsets in one pass, then the link."""
    calibration.require_two_classes()
    sums, prior_var = calibration.item_sums, calibration.options.prior_var
    offset, variance = static_offsets(sums, prior_var)
    link = fit_link(calibration, ItemOffsets(offset))
    return ParameterSet(
        method="slc",
        link=Affine(link.a, link.b0),
        effects=by_item(static_items(calibration, offset, variance), prior_var),
        n_rows=calibration.log.n_rows,
        n_items=calibration.n_items,
        warnings=link.warnings,
    )


def static_offsets(sums: Sums, prior_var: float) -> tuple[Floats, Floats]:
    """bᵢ and its posterior variance.

    >>> import numpy as np
    >>> sums = Sums(n=np.array([4.0]), y=np.array([3.0]), p=np.array([2.0]), fisher=np.array([1.0]))
    >>> [values.tolist() for values in static_offsets(sums, prior_var=1.0)]
    [[0.5], [0.5]]
    """
    variance = 1.0 / (1.0 / prior_var + sums.fisher)
    return (sums.y - sums.p) * variance, variance


def static_items(calibration: Calibration, offset: Floats, variance: Floats) -> pa.Table:
    """The item table of static offsets with a posterior variance each; λ = 1 − variance/σ_b²."""
    return item_table(calibration, offset, variance, 1.0 - variance / calibration.options.prior_var)
