"""``histogram``: the mean label of each of 15 equal-width bins of p (Zadrozny and Elkan, 2001).

Bins are closed on the right. A bin without rows answers with its centre.
"""

import numpy as np

from slc_ops.correction.calibration import Calibration
from slc_ops.correction.curves import Histogram, bin_of
from slc_ops.correction.kernels import Sums, key_sums, sigmoid
from slc_ops.correction.parameters import ParameterSet
from slc_ops.logs.rows import Rows

BINS = 15


def fit(calibration: Calibration) -> ParameterSet:
    """Count labels per bin."""
    calibration.require_two_classes()
    sums = calibration.add_up(_bin_sums)
    centre = (np.arange(BINS) + 0.5) / BINS
    values = np.divide(sums.y, sums.n, out=centre, where=sums.n > 0)
    return ParameterSet(
        method="histogram",
        link=Histogram(values),
        n_rows=calibration.log.n_rows,
        n_items=calibration.n_items,
    )


def _bin_sums(rows: Rows) -> Sums:
    return key_sums(bin_of(sigmoid(rows.logit.astype(np.float64)), BINS), BINS, rows)
