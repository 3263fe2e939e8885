"""Data frames in and out, for MLflow's own serving."""

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slc_ops.base.errors import InputError
from slc_ops.rows.columns import as_logits

if TYPE_CHECKING:
    import pandas as pd

    from slc_ops.serving.corrector import Corrector


def correct_frame(corrector: "Corrector", frame: "pd.DataFrame") -> "pd.DataFrame":
    """``item_id`` and ``logit`` (or ``probability``, clipped as in the log's contract) → ``p_corrected``.

    A column ``backbone_version`` says which model made each row's logit; a row without one is taken as it is.
    """
    import pandas as pd

    if ("logit" in frame) == ("probability" in frame):
        raise InputError(
            f"expected one of the columns logit and probability; found {', '.join(map(str, frame.columns))}"
        )
    score = "logit" if "logit" in frame else "probability"
    logit = as_logits(pa.array(_numbers(frame, score)), score, 0)
    # Methods that look at the score alone need no ids.
    items = frame["item_id"].to_numpy() if "item_id" in frame else np.zeros(len(frame), np.int64)
    time = _numbers(frame, "event_time") if "event_time" in frame else None
    if "backbone_version" not in frame:
        return pd.DataFrame({"p_corrected": corrector.correct(items, logit, time)}, index=frame.index)
    versions = frame["backbone_version"].to_numpy(object)
    versions[pd.isna(versions)] = None
    result = np.empty(len(frame))
    for version in dict.fromkeys(versions):
        rows = np.flatnonzero(versions == version)
        then = None if time is None else time[rows]
        result[rows] = corrector.correct(items[rows], logit[rows], then, backbone_version=version)
    return pd.DataFrame({"p_corrected": result}, index=frame.index)


def _numbers(frame: "pd.DataFrame", name: str) -> NDArray[np.float64]:
    try:
        return frame[name].to_numpy(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"column {name!r} does not hold numbers: {error}") from None
