"""Load parameter sets from a directory as calibrators."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from slc_ops.api.errors import as_value_errors

if TYPE_CHECKING:
    from slc_ops.api.columns import Column
    from slc_ops.api.estimator import ItemCalibrator


def load(
    directory: str | Path,
    *,
    item: "Column | None" = "item_id",
    logit: "Column | None" = None,
    probability: "Column | None" = None,
    time: "Column | None" = None,
) -> "ItemCalibrator":
    """Load a fitted calibrator from a parameter set of ``slc-ops fit``, a refresh or ``save``.

    Digests, schema version and golden vectors are verified. The column arguments name the columns that
    ``predict_proba`` reads; the classes are 0 and 1. Needs the extra ``sklearn``.

    Raises:
        ParameterSetError: The set is incomplete, altered, or of an unknown schema version.
    """
    from slc_ops.api.estimator import ItemCalibrator
    from slc_ops.parameters.parameter_set import ParameterSet

    with as_value_errors():
        parameters = ParameterSet.read(Path(directory))
    calibrator = ItemCalibrator(parameters.method, item=item, logit=logit, probability=probability, time=time)
    calibrator.parameters_, calibrator.item_rates_ = parameters, None
    calibrator.classes_ = np.array([0, 1])
    return calibrator
