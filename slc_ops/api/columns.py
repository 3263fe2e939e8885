"""Read the item, score, time and user columns of a frame or an array."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slc_ops.api.errors import BadOption, FrameError
from slc_ops.base.buffers import as_numpy
from slc_ops.base.ids import as_ids
from slc_ops.rows.columns import as_times
from slc_ops.rows.frames import as_table, column_array, column_names, is_frame

Column = str | int
"""A column by name or by position; plain arrays have positions only."""


class Table:
    """A frame or a validated plain array; columns are read by name or position."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows
        self.names: list[str] | None = column_names(rows) if is_frame(rows) else None

    @property
    def width(self) -> int:
        """The number of columns."""
        return int(self._rows.shape[1]) if self.names is None else len(self.names)

    def has(self, column: Column) -> bool:
        """Return True if the column exists."""
        if isinstance(column, str):
            return self.names is not None and column in self.names
        return -self.width <= column < self.width

    def name(self, column: Column) -> str:
        """Return the column's name for messages and logs; for a plain array, its position as text."""
        if isinstance(column, str):
            return column
        return str(column) if self.names is None else self.names[column]

    def read(self, argument: str, column: Column) -> pa.Array:
        """Return a column as an Arrow array; ``argument`` is the parameter for error messages."""
        self.require(argument, column)
        name = self.name(column)
        if self.names is not None:
            found = as_table(self._rows, [name]).column(0)
            return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
        values = self._rows[:, column]
        return column_array(
            values.tolist() if values.dtype.kind in "OUS" else np.ascontiguousarray(values), name
        )

    def require(self, argument: str, column: Column) -> None:
        """Raise `FrameError`, with the existing columns, if the column is missing."""
        if self.has(column):
            return
        if isinstance(column, str) and self.names is None:
            raise FrameError(
                f"{argument}={column!r} is a column's name, but X is a plain array without names; give its "
                f"position (0 to {self.width - 1}) or pass a frame"
            )
        known = "" if self.names is None else f": {', '.join(self.names)}"
        raise FrameError(
            f"X has no column {column!r}, which {argument}= names; it has {self.width} feature(s){known}"
        )


def item_ids(
    table: Table, column: Column, known: pa.DataType | None = None, argument: str = "item"
) -> pa.Array:
    """Return the ids of items or users as text or integers; ``known`` is their type in the fit.

    In a prediction a row without an item counts as an unknown item; in a fit it is an error. Floats with
    integer values become integers. A plain array has one type for all columns, so a column given by position
    may hold any number, as in scikit-learn's encoders.
    """
    values, name = table.read(argument, column), table.name(column)
    if pa.types.is_string_view(values.type):
        values = values.cast(pa.string())
    if known is not None:
        missing = as_numpy(pc.is_null(values, nan_is_null=True))
        if missing.all():
            return pa.nulls(len(values), known)
        if missing.any():
            there = _ids(values.filter(pa.array(~missing)), name, known, by_name=isinstance(column, str))
            return there.take(pa.array(np.cumsum(~missing) - 1, mask=missing))
    return _ids(values, name, known, by_name=isinstance(column, str))


def _ids(values: pa.Array, name: str, known: pa.DataType | None, *, by_name: bool) -> pa.Array:
    if pa.types.is_floating(values.type):
        values = _from_floats(values, name, known, any_number=not by_name)
    ids = as_ids(values, name, 0)
    kind = ids.type.value_type if pa.types.is_dictionary(ids.type) else ids.type
    if known is not None and kind != known and len(ids):
        if known == pa.string() and not by_name:
            return pc.cast(ids, known)
        raise FrameError(
            f"column {name!r} holds items of type {kind}, but the calibrator was fitted to {known}; cast it"
        )
    return ids


def _from_floats(values: pa.Array, name: str, known: pa.DataType | None, any_number: bool) -> pa.Array:
    if values.null_count or not np.isfinite(as_numpy(values.fill_null(np.nan))).all():
        raise FrameError(f"column {name!r} contains NaN or infinity; an item is text or a whole number")
    numbers = as_numpy(values.cast(pa.float64()))
    whole = (numbers == np.trunc(numbers)) & (np.abs(numbers) < 2.0**53)
    if whole.all() and known != pa.string():
        return pa.array(numbers.astype(np.int64))
    if not any_number or known == pa.int64():
        bad = numbers[np.argmin(whole)] if not whole.all() else numbers[0]
        raise FrameError(f"column {name!r} holds the item {bad:g}; expected text or whole numbers")
    return pc.cast(pa.array(numbers), pa.string())


def times(table: Table, column: Column) -> NDArray[np.float64]:
    """Return the event times as numbers."""
    return as_times(numbers_or_times(table, "time", column), 0)


def numbers_or_times(table: Table, argument: str, column: Column) -> pa.Array:
    """Return a numeric column; text in a plain array of mixed types is parsed as numbers."""
    values = table.read(argument, column)
    if pa.types.is_string(values.type) and table.names is None:  # np.array([["a", 0.3]]) holds only text
        try:
            return pc.cast(values, pa.float64())
        except pa.ArrowInvalid as error:
            raise FrameError(f"column {table.name(column)!r} does not hold numbers: {error}") from None
    return values


def without(table: Table, columns: Sequence[Column]) -> list[int]:
    """Return the positions of all columns except these."""
    out = {
        table.names.index(c) if isinstance(c, str) and table.names else int(c) % table.width for c in columns
    }
    return [position for position in range(table.width) if position not in out]


def score_column(table: Table, logit: Column | None, probability: Column | None) -> tuple[str, Column]:
    """Return kind and column of the score; the default is a column "logit" or "probability"."""
    if logit is not None and probability is not None:
        raise BadOption("logit= and probability= are both given; the score is one of them")
    if logit is not None:
        return "logit", logit
    if probability is not None:
        return "probability", probability
    found = [name for name in ("logit", "probability") if table.has(name)]
    if not found:
        has = f"{table.width} feature(s)" if table.names is None else ", ".join(table.names)
        raise FrameError(
            "no score: give logit= or probability= (a column of the frozen model's answers) or estimator= "
            f"(the frozen model itself); X has {has}"
        )
    return found[0], found[0]
