"""The correction ladder: methods that turn frozen logits into better probabilities, one module each.

:mod:`slc_ops.base.methods`, the table of methods, describes them.

>>> import pyarrow as pa
>>> from slc_ops.rows.interactions import InteractionLog
>>> log = InteractionLog.from_table(
...     pa.table({"item_id": ["a", "a", "b", "b"], "label": [1, 1, 0, 1], "logit": [0.1, -0.2, 0.3, 0.2]})
... )
>>> parameters = fit("slc", log)
>>> parameters.apply(log).shape
(4,)
"""

import importlib
from typing import TYPE_CHECKING

from slc_ops.base.methods import METHODS, method_named
from slc_ops.methods.fitting.options import FitOptions

if TYPE_CHECKING:
    from slc_ops.methods.fitting.calibration import Calibration
    from slc_ops.parameters.parameter_set import ParameterSet
    from slc_ops.rows.frames import Frame
    from slc_ops.rows.rows import Log

__all__ = ["METHODS", "FitOptions", "fit", "fit_prepared"]


def fit(method: str, calibration: "Log | Frame", *, options: FitOptions | None = None) -> "ParameterSet":
    """Fit one method on a log, or on a data frame with the log's columns.

    Raises :class:`~slc_ops.base.errors.InputError` for rows that break the log's contract,
    :class:`~slc_ops.base.errors.FitError` for rows that cannot be fitted.
    """
    from slc_ops.methods.fitting.calibration import Calibration
    from slc_ops.rows.frames import log_of

    return fit_prepared(method, Calibration(log_of(calibration), None, options))


def fit_prepared(
    method: str,
    calibration: "Calibration",
    long: "Calibration | None" = None,
    older: "Calibration | None" = None,
) -> "ParameterSet":
    """Fit one method on rows whose shared sums are kept for the next method.

    A method with long memory takes its offsets from ``long``, if that is given, and its link from
    ``calibration``; a method that forgets takes its effects from ``older``, which reaches further back. All
    others use ``calibration`` alone.
    """
    known = method_named(method)
    module = importlib.import_module(f"slc_ops.methods.{known.name}")
    fitted: ParameterSet
    if known.forgets and older is not None:
        fitted = module.fit(long or calibration, None if long is None else calibration, older)
    elif known.long_memory and long is not None:
        fitted = module.fit(long, calibration)
    else:
        fitted = module.fit(calibration)
    return fitted
