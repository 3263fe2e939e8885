"""The contract's columns as typed arrays: what a batch must look like, and errors that say where it does not.

Every check names the column, how many rows break the rule, the first of them (rows count from 0) and what
stands there. Nothing is repaired.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slc_ops.base.errors import InputError
from slc_ops.base.utf8 import require_utf8
from slc_ops.rows.buffers import as_numpy

PROBABILITY_FLOOR = 1e-6
CONTRACT_COLUMNS = (
    "event_id", "event_time", "user_id", "item_id", "label", "logit", "probability", "weight", "group_id",
    "backbone_version",
)  # fmt: skip


def missing_columns(names: Iterable[str], rename: Mapping[str, str]) -> list[str]:
    """Which of the columns that every fit needs are not there."""
    present = set(names)
    missing = [name for name in ("item_id", "label") if rename.get(name, name) not in present]
    if not {rename.get("logit", "logit"), rename.get("probability", "probability")} & present:
        missing.append("logit (or probability)")
    return missing


def as_ids(column: pa.Array, name: str, first_row: int) -> pa.Array:
    """Identifiers as ``int64`` or ``string`` (dictionaries stay encoded); anything else is refused."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_integer(kind):
        wanted = pa.int64()
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        wanted = pa.string()
    elif pa.types.is_null(kind):
        raise ColumnError(name, "it has only nulls; expected text or integers")
    else:
        raise ColumnError(name, _no_id(column, kind))
    require_utf8(name, column)
    if column.null_count or (pa.types.is_dictionary(column.type) and column.dictionary.null_count):
        refuse(~as_numpy(column.is_valid()), name, "is null", first_row)
    if pa.types.is_dictionary(column.type):
        if kind != wanted:
            values = _cast(column.dictionary, wanted, name)
            column = pa.DictionaryArray.from_arrays(column.indices, values)
        return column
    return column if kind == wanted else _cast(column, wanted, name)


def as_labels(column: pa.Array, first_row: int) -> NDArray[np.int8]:
    """Labels as 0/1 in one byte each."""
    values = as_numbers(column, "label", first_row)
    if values.dtype.kind == "f":
        bad = (values != 0) & (values != 1)
    else:
        bad = values.astype(np.int64, copy=False) >> 1 != 0
    if bad.any():
        refuse(bad, "label", "is not 0 or 1", first_row, values)
    return values.astype(np.int8, copy=False)


def as_logits(column: pa.Array, name: str, first_row: int) -> NDArray[np.floating]:
    """Logits, or probabilities turned into logits; ``float32`` stays so (half the memory, same value)."""
    values = as_numbers(column, name, first_row)
    if values.dtype != np.float32:
        values = values.astype(np.float64, copy=False)
    if not np.isfinite(values).all():
        refuse(~np.isfinite(values), name, "is NaN or infinite", first_row, values)
    if name != "probability":
        return values
    outside = (values < 0) | (values > 1)
    if outside.any():
        refuse(outside, name, "is outside [0, 1]", first_row, values)
    clipped = np.clip(values.astype(np.float64), PROBABILITY_FLOOR, 1 - PROBABILITY_FLOOR)
    logits: NDArray[np.floating] = np.log(clipped) - np.log1p(-clipped)
    return logits


def as_weights(column: pa.Array, first_row: int) -> NDArray[np.floating]:
    """Observation weights, finite and not negative."""
    values = as_numbers(column, "weight", first_row)
    if values.dtype != np.float32:
        values = values.astype(np.float64, copy=False)
    bad = ~(values >= 0) | ~np.isfinite(values)
    if bad.any():
        refuse(bad, "weight", "is not a finite number ≥ 0", first_row, values)
    return values


def as_times(column: pa.Array, first_row: int) -> NDArray[np.float64]:
    """Moments as seconds since 1970 in UTC (no zone means UTC), or the number that stands there."""
    if column.null_count:
        refuse(~as_numpy(column.is_valid()), "event_time", "is null", first_row)
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("us"))
    if pa.types.is_timestamp(column.type):
        if column.type.unit == "ns":  # beyond what a float64 can hold since 1970; the contract is in µs
            column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
        ticks = as_numpy(column.cast(pa.int64()))
        per_second = {"s": 1, "ms": 10**3, "us": 10**6}[column.type.unit]
        return ticks / np.float64(per_second)
    values = as_numbers(column, "event_time", first_row).astype(np.float64, copy=False)
    if not np.isfinite(values).all():
        refuse(~np.isfinite(values), "event_time", "is NaN or infinite", first_row, values)
    return values


def as_numbers(column: pa.Array, name: str, first_row: int) -> NDArray[Any]:
    """A numeric column without nulls, as NumPy sees it."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if column.null_count:
        refuse(~as_numpy(column.is_valid()), name, "is null", first_row)
    if pa.types.is_boolean(kind) or pa.types.is_float16(kind):
        column = column.cast(pa.int8() if pa.types.is_boolean(kind) else pa.float32())
    elif pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        expected = _INSTEAD_OF_TEXT.get(name, "numbers")
        raise ColumnError(name, f"it is of type {kind}, {_example(column)}; expected {expected}")
    return as_numpy(column)


class ColumnError(InputError):
    """A column that cannot be used: ``column`` is its name in the contract, ``what`` is wrong with it.

    >>> print(ColumnError("label", "it has only nulls").at("may.csv", "correct"))
    column 'correct' (label) of may.csv: it has only nulls
    """

    def __init__(self, column: str, what: str, where: str = "", called: str = "") -> None:
        self.column, self.what = column, what
        meaning = f" ({column})" if called and called != column else ""
        super().__init__(f"column {(called or column)!r}{meaning}{where and f' of {where}'}: {what}")

    def at(self, where: str, called: str) -> "ColumnError":
        """The same, with the file and the user's own name of the column."""
        return ColumnError(self.column, self.what, where, called)


class BadRowsError(ColumnError):
    """Rows of one column that break one rule: how many, and the first of them."""

    def __init__(
        self, column: str, rule: str, count: int, first: int, value: object = None, where: str = "",
        called: str = "",
    ) -> None:  # fmt: skip
        self.rule, self.count, self.first, self.value = rule, count, first, value
        rows = "1 row" if count == 1 else f"{count} rows"
        found = "" if value is None else f" with {value}"
        at = f"the first is row {first} (counting from 0){found}"
        super().__init__(column, f"{rows} where it {rule}, {at}; correct or remove them", where, called)

    def counted(self, count: int, where: str, called: str) -> "BadRowsError":
        """The same of a whole file."""
        return BadRowsError(self.column, self.rule, count, self.first, self.value, where, called)


def refuse(
    bad: NDArray[np.bool_], name: str, rule: str, first_row: int, values: NDArray[Any] | None = None
) -> None:
    """Raise :class:`BadRowsError` for the rows marked ``bad``; ``values`` are what stands there."""
    first = int(np.argmax(bad))
    value = None if values is None else values[first].item()
    raise BadRowsError(name, rule, int(bad.sum()), first_row + first, value)


def _example(column: pa.Array) -> str:
    """The first value of a column, for a message."""
    value = next((each for each in column[:1000].to_pylist() if each is not None), None)
    return f"for example {str(value)[:40]!r}" if isinstance(value, str) else f"for example {value}"


def _no_id(column: pa.Array, kind: pa.DataType) -> str:
    """Why a column holds no ids, and what to do."""
    found = f"it is of type {kind}, {_example(column)}; expected text or integers"
    if pa.types.is_floating(kind) and (pc.max(pc.abs(column)).as_py() or 0) >= 2.0**63:
        return f"{found}: ids beyond 64 bits lose their last digits as numbers, write them as text"
    return f"{found} (cast it first)"


def _cast(values: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    try:
        return pc.cast(values, wanted)
    except pa.ArrowInvalid as error:
        raise ColumnError(
            name, f"it cannot be read as {wanted} ({error}); ids beyond 64 bits have to be text"
        ) from None


_INSTEAD_OF_TEXT = {
    "label": "the numbers 0 and 1; recode it first (yes is 1, no is 0)",
    "event_time": (
        "moments or numbers; write moments in UTC as 2026-03-02T09:00:00Z, without the name of a zone"
    ),
}
