"""Read the score of a frozen classifier, without fitting it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from slc_ops.api.columns import Column, Table, without
from slc_ops.api.errors import BadOption, FrameError
from slc_ops.base.buffers import as_arrow


def frozen_logits(
    estimator: Any, table: Table, X: Any, unused: Sequence[Column]
) -> tuple[str, str, pa.Array]:
    """Return kind, name and values of a fitted binary classifier's scores.

    The classifier receives the columns of its own fit, by name if it stores names. Otherwise it receives all
    columns, or all but the ``unused`` ones (item, time, user), depending on the number of its features.
    """
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(estimator)
    except NotFittedError:
        raise BadOption(
            f"estimator={type(estimator).__name__} is not fitted; fit it on other rows first, and wrap it in "
            "sklearn.frozen.FrozenEstimator so that clones keep its fit"
        ) from None
    features = _features(estimator, table, X, unused)
    name = f"the score of {type(getattr(estimator, 'estimator', estimator)).__name__}"
    if hasattr(estimator, "predict_proba"):
        answer = np.asarray(estimator.predict_proba(features), dtype=np.float64)
        if answer.ndim != 2 or answer.shape[1] != 2:
            raise BadOption(f"estimator= answers probabilities of shape {answer.shape}; expected two classes")
        return "probability", name, as_arrow(np.ascontiguousarray(answer[:, 1]))
    if hasattr(estimator, "decision_function"):
        answer = np.asarray(estimator.decision_function(features), dtype=np.float64)
        if answer.ndim != 1:
            raise BadOption(f"estimator= answers scores of shape {answer.shape}; expected one per row")
        return "logit", name, as_arrow(answer)
    raise BadOption("estimator= has neither predict_proba nor decision_function; expected a classifier")


def _features(estimator: Any, table: Table, X: Any, unused: Sequence[Column]) -> Any:
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None and table.names is not None:
        absent = [name for name in names if name not in table.names]
        if absent:
            raise FrameError(f"X has no column {absent[0]!r}, which estimator= was fitted to")
        return _select(X, [table.names.index(name) for name in names])
    wanted = getattr(estimator, "n_features_in_", table.width)
    if wanted == table.width:
        return X
    rest = without(table, unused)
    if wanted == len(rest):
        return _select(X, rest)
    raise FrameError(
        f"estimator= was fitted to {wanted} features; X has {table.width}, and {len(rest)} without item, "
        "time and user"
    )


def _select(X: Any, positions: list[int]) -> Any:
    """Return some columns; the frame keeps its type."""
    if hasattr(X, "iloc"):
        return X.iloc[:, positions]
    if hasattr(X, "columns") or isinstance(X, pa.RecordBatch):
        names = X.schema.names if isinstance(X, pa.Table | pa.RecordBatch) else list(X.columns)
        return X.select([names[position] for position in positions])
    return np.asarray(X)[:, positions]
