"""Interval of a probability from the uncertainty of its offsets: p at both ends of their posterior.

Offsets are normal with the posterior variance of the fit; the variances of a row's offsets add up. An unknown
id has the prior variance. The link and the slopes count as known.
"""

import numpy as np

from slc_ops.numerics.kernels import Floats
from slc_ops.numerics.time_bins import time_bin
from slc_ops.parameters.effects import Lookup, Positions
from slc_ops.parameters.parameter_set import Found, ParameterSet, sum_of

Z = 1.959963984540054
"""The 97.5 % quantile of the standard normal distribution."""


def interval_of(parameters: ParameterSet, rows: Found) -> tuple[Floats, Floats] | tuple[None, None]:
    """Return the lower and upper 95 % bounds of rows; None without variances.

    >>> import pyarrow as pa
    >>> from slc_ops.numerics.curves import Affine
    >>> from slc_ops.parameters.effects import Effect
    >>> items = Effect(pa.table({"id": ["a"], "offset": [1.0], "offset_var": [0.25]}), prior_var=1.0)
    >>> parameters = ParameterSet("slc", Affine(), {"item": items})
    >>> found = interval_of(parameters, parameters.found({"item": ["a"]}, [0.0], None))
    >>> [each.round(3).tolist() for each in found]
    [[0.505], [0.879]]
    """
    lookups, (values, times, positions) = parameters.lookups, rows
    if not lookups or any(each.variance is None for each in lookups):
        return None, None
    variance = sum(_variance(*each, times) for each in zip(lookups, positions, strict=True))
    added = sum_of(parameters.added(positions), values, times)
    reach = Z * np.sqrt(variance)
    low, high = (parameters.link.probability(values, added + side * reach, times) for side in (-1.0, 1.0))
    return np.minimum(low, high), np.maximum(low, high)


def _variance(lookup: Lookup, positions: Positions, times: Floats | None) -> Floats:
    """Return the variance of each row, in the row's time bin (the last one without times)."""
    edges = lookup.added.time_edges
    column = -1 if times is None or edges is None else time_bin(times, edges)
    found: Floats = np.asarray(lookup.variance)[positions, column]
    return found
