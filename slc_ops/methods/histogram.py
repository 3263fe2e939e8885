"""``histogram``: the mean label of each of 15 equal-width bins of p (Zadrozny and Elkan, 2001).

Bins are closed on the right. A bin without rows has its centre as value.
"""

import numpy as np

from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.results import fitted
from slc_ops.numerics.curves import Histogram, bin_of
from slc_ops.numerics.kernels import sigmoid, slices
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.rows.passes import Totals
from slc_ops.rows.rows import Rows

BINS = 15


def fit(calibration: Calibration) -> ParameterSet:
    """Estimate the mean label of each bin."""
    calibration.require_two_classes()
    zeros, ones = calibration.add_up(_label_sums).values.T
    count, centre = zeros + ones, (np.arange(BINS) + 0.5) / BINS
    values = np.divide(ones, count, out=centre, where=count > 0)
    return fitted(calibration, "histogram", Histogram(values))


def _label_sums(rows: Rows) -> Totals:
    """Return Σw of each label in each bin."""
    sums = np.zeros(2 * BINS)
    for part in slices(len(rows)):
        cells = bin_of(sigmoid(rows.logit[part]), BINS)
        cells *= 2
        cells += rows.label[part]
        sums += np.bincount(cells, None if rows.weight is None else rows.weight[part], 2 * BINS)
    return Totals(sums.reshape(BINS, 2))
