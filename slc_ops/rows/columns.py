"""The contract's columns as typed arrays, and the validation of batches.

Every error states the column, the number of rows that break the rule, the first of them (counted from 0) and
its value. Nothing is repaired.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slc_ops.base.buffers import as_numpy
from slc_ops.base.errors import ColumnError, refuse_rows
from slc_ops.base.ids import example_of

PROBABILITY_FLOOR = 1e-6
CONTRACT_COLUMNS = (
    "event_id", "event_time", "user_id", "item_id", "label", "logit", "probability", "weight", "group_id",
    "backbone_version",
)  # fmt: skip


def as_labels(column: pa.Array, first_row: int) -> NDArray[np.int8]:
    """Return labels as 0/1 in one byte each."""
    values = as_numbers(column, "label", first_row)
    if values.dtype.kind == "f":
        bad = (values != 0) & (values != 1)
    else:
        bad = values.astype(np.int64, copy=False) >> 1 != 0
    if bad.any():
        refuse_rows(bad, "label", "is not 0 or 1", first_row, values)
    return values.astype(np.int8, copy=False)


def as_logits(column: pa.Array, name: str, first_row: int) -> NDArray[np.floating]:
    """Return logits, or probabilities converted to logits; ``float32`` stays as it is (half the memory)."""
    values = as_numbers(column, name, first_row)
    if values.dtype != np.float32:
        values = values.astype(np.float64, copy=False)
    if not np.isfinite(values).all():
        refuse_rows(~np.isfinite(values), name, "is NaN or infinite", first_row, values)
    if name != "probability":
        return values
    outside = (values < 0) | (values > 1)
    if outside.any():
        refuse_rows(outside, name, "is outside [0, 1]", first_row, values)
    clipped = np.clip(values.astype(np.float64), PROBABILITY_FLOOR, 1 - PROBABILITY_FLOOR)
    logits: NDArray[np.floating] = np.log(clipped) - np.log1p(-clipped)
    return logits


def as_weights(column: pa.Array, first_row: int) -> NDArray[np.floating]:
    """Return observation weights, finite and not negative."""
    values = as_numbers(column, "weight", first_row)
    if values.dtype != np.float32:
        values = values.astype(np.float64, copy=False)
    bad = ~(values >= 0) | ~np.isfinite(values)
    if bad.any():
        refuse_rows(bad, "weight", "is not a finite number ≥ 0", first_row, values)
    return values


def as_times(column: pa.Array, first_row: int) -> NDArray[np.float64]:
    """Return timestamps as seconds since 1970 in UTC (no zone means UTC); numbers unchanged."""
    if column.null_count:
        refuse_rows(~as_numpy(column.is_valid()), "event_time", "is null", first_row)
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("us"))
    if pa.types.is_timestamp(column.type):
        if column.type.unit == "ns":  # exceeds the precision of float64; the contract is in µs
            column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
        ticks = as_numpy(column.cast(pa.int64()))
        per_second = {"s": 1, "ms": 10**3, "us": 10**6}[column.type.unit]
        return ticks / np.float64(per_second)
    values = as_numbers(column, "event_time", first_row).astype(np.float64, copy=False)
    if not np.isfinite(values).all():
        refuse_rows(~np.isfinite(values), "event_time", "is NaN or infinite", first_row, values)
    return values


def as_numbers(column: pa.Array, name: str, first_row: int) -> NDArray[Any]:
    """Return a numeric column as a NumPy array; raise for nulls and other types."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if column.null_count:
        refuse_rows(~as_numpy(column.is_valid()), name, "is null", first_row)
    if pa.types.is_boolean(kind) or pa.types.is_float16(kind):
        column = column.cast(pa.int8() if pa.types.is_boolean(kind) else pa.float32())
    elif pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        expected = _INSTEAD_OF_TEXT.get(name, "numbers")
        raise ColumnError(name, f"it is of type {kind}, {example_of(column)}; expected {expected}")
    return as_numpy(column)


_INSTEAD_OF_TEXT = {
    "label": "the numbers 0 and 1; recode it first (yes is 1, no is 0)",
    "event_time": (
        "timestamps or numbers; write timestamps in UTC as 2026-03-02T09:00:00Z, without a zone name"
    ),
}
