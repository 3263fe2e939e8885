"""``platt``: p = σ(a·η₀ + b₀) by maximum likelihood (Platt, 1999).

A strictly increasing map of the score (when a > 0), so AUC cannot change: Lemma 1 of the paper, and a
self-test at run time.
"""

from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.link import fit_link
from slc_ops.numerics.curves import Affine
from slc_ops.parameters.parameter_set import ParameterSet


def fit(calibration: Calibration) -> ParameterSet:
    """Estimate (a, b₀)."""
    link = fit_link(calibration)
    return ParameterSet(
        method="platt",
        link=Affine(link.a, link.b0),
        n_rows=calibration.log.n_rows,
        n_items=calibration.n_items,
        warnings=link.warnings,
    )
