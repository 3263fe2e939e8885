"""``half_step``: half of the offsets of ``slc`` under its link. Used only by the test that adds a method."""

from dataclasses import replace

import pyarrow.compute as pc

from slc_ops.methods import slc
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.parameters.parameter_set import ParameterSet


def fit(calibration: Calibration) -> ParameterSet:
    """Fit ``slc``, then halve."""
    whole = slc.fit(calibration)
    effect = whole.effects["item"]
    place = effect.table.column_names.index("offset")
    table = effect.table.set_column(place, "offset", pc.multiply(effect.table["offset"], 0.5))
    return replace(whole, method="half_step").with_effect("item", replace(effect, table=table))
