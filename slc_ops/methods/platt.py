"""``platt``: p = σ(a·η₀ + b₀) by maximum likelihood (Platt, 1999).

For a > 0 a strictly increasing map of the score, so AUC cannot change: Lemma 1 of the paper, and a self-test
at run time.
"""

from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.link import fit_link
from slc_ops.methods.fitting.results import fitted
from slc_ops.parameters.parameter_set import ParameterSet


def fit(calibration: Calibration) -> ParameterSet:
    """Estimate (a, b₀)."""
    return fitted(calibration, "platt", fit_link(calibration))
