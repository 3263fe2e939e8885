"""Correct data frames, for MLflow's own serving."""

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slc_ops.base.errors import InputError
from slc_ops.parameters.effects import COLUMNS
from slc_ops.rows.columns import as_logits
from slc_ops.rows.frames import column_array
from slc_ops.serving.answers import Columns

if TYPE_CHECKING:
    import pandas as pd

    from slc_ops.serving.corrector import Corrector


def correct_frame(corrector: "Corrector", frame: "pd.DataFrame") -> "pd.DataFrame":
    """Return ``p_corrected`` for ``item_id`` and ``logit`` (or ``probability``, clipped as in the log).

    ``group_id`` and ``user_id`` are used by methods with these effects. A column ``backbone_version``
    contains the model version of each row's logit; a row without one is corrected. Invalid columns raise
    :class:`InputError`.
    """
    import pandas as pd

    score = score_of(list(map(str, frame.columns)))
    logit = as_logits(pa.array(_numbers(frame, score)), score, 0)
    if "item_id" in corrector.id_types and "item_id" not in frame:
        raise InputError(f"expected the column item_id; found {', '.join(map(str, frame.columns))}")
    ids = {name: column_array(frame[each], each) for name, each in COLUMNS.items() if each in frame}
    time = _numbers(frame, "event_time") if "event_time" in frame else None
    versions = None
    if "backbone_version" in frame:
        versions = frame["backbone_version"].to_numpy(object)
        versions[pd.isna(versions)] = None
    found = corrector.answer_columns(Columns(logit, ids, time), versions)
    return pd.DataFrame({"p_corrected": found.probability}, index=frame.index)


def score_of(columns: Collection[str]) -> str:
    """Return the column of the frozen model's scores; there must be one."""
    found = [name for name in ("logit", "probability") if name in columns]
    if len(found) != 1:
        raise InputError(
            f"expected one of the columns logit and probability; found {', '.join(columns)[:200] or 'none'}"
        )
    return found[0]


def _numbers(frame: "pd.DataFrame", name: str) -> NDArray[np.float64]:
    try:
        return frame[name].to_numpy(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"column {name!r} does not hold numbers: {error}") from None
