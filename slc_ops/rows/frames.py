"""Users' data frames as Arrow tables and logs: pandas, Polars, Arrow, or a mapping of columns.

Columns are converted one by one and only on request, so that an error names the column, and an unused column
may contain anything.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from slc_ops.base.errors import InputError
from slc_ops.rows.columns import CONTRACT_COLUMNS
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.reading import TableSource
from slc_ops.rows.rows import Log

Frame = Any
"""A pandas, Polars or Arrow frame, any object with Arrow's stream interface, or a mapping of columns."""

EXPECTED = "a pandas, Polars or Arrow frame, or a mapping of columns"


def is_frame(value: object) -> bool:
    """Return True when a value has named columns.

    >>> is_frame({"item_id": ["a"]}), is_frame(pa.table({"item_id": ["a"]})), is_frame([[1.0, 2.0]])
    (True, True, False)
    """
    if isinstance(value, Mapping | pa.Table | pa.RecordBatch):
        return True
    return hasattr(value, "columns") or (hasattr(value, "__arrow_c_stream__") and not hasattr(value, "dtype"))


def column_names(frame: Frame) -> list[str]:
    """Return the names of a frame's columns, as text.

    Raises :class:`InputError` for other objects and for two columns of one name.
    """
    names = [str(name) for name in _names(frame)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"the frame has two columns {twice[0]!r}; rename one of them")
    return names


def as_table(frame: Frame, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the columns (default: all) of a frame as an Arrow table.

    Raises :class:`InputError` for other objects, a missing column, and a column of mixed types.

    >>> as_table({"item_id": ["a"], "label": [1], "notes": [object()]}, ["item_id", "label"]).num_rows
    1
    """
    names = column_names(frame)
    wanted = names if columns is None else list(columns)
    absent = [name for name in wanted if name not in names]
    if absent:
        raise InputError(f"the frame has no column {', '.join(map(repr, absent))}; it has {', '.join(names)}")
    values = _columns(frame)
    return pa.table({name: column_array(values[names.index(name)], name) for name in wanted})


def as_log(
    frame: Frame, rename: Mapping[str, str] | None = None, *, name: str = "the frame"
) -> InteractionLog:
    """Return a frame's rows as a log; ``rename`` maps a contract's column to the frame's.

    A log is returned unchanged.

    >>> as_log({"pid": ["a", "b"], "label": [0, 1], "logit": [0.1, 0.2]}, {"item_id": "pid"}).n_rows
    2
    """
    if isinstance(frame, InteractionLog):
        return frame
    rename = dict(rename or {})
    known = {rename.get(column, column) for column in CONTRACT_COLUMNS}
    table = as_table(frame, [column for column in column_names(frame) if column in known])
    return InteractionLog(TableSource(table, name), rename=rename)


def log_of(rows: Log | Frame) -> Log:
    """Return a log unchanged, local or on a cluster; convert a frame with the contract's columns."""
    return rows if hasattr(rows, "add_up") else as_log(rows)


def _names(frame: Frame) -> Iterable[Any]:
    if isinstance(frame, Mapping):
        return list(frame)
    if isinstance(frame, pa.Table | pa.RecordBatch):
        return list(frame.schema.names)
    if type(frame).__name__ == "LazyFrame":  # of Polars
        raise InputError("the frame is a plan that has not run yet; call .collect() on it first")
    if hasattr(frame, "columns"):
        return list(frame.columns)
    if is_frame(frame):
        return list(pa.table(frame).schema.names)
    raise InputError(f"found {type(frame).__name__}; expected {EXPECTED}")


def _columns(frame: Frame) -> list[Any]:
    """Return the columns as they are: those of pandas and of a mapping are converted one by one."""
    if isinstance(frame, Mapping):
        return list(frame.values())
    if hasattr(frame, "iloc"):
        return [frame.iloc[:, position] for position in range(len(frame.columns))]
    return list((frame if isinstance(frame, pa.Table | pa.RecordBatch) else pa.table(frame)).columns)


def column_array(values: Any, name: str) -> pa.Array:
    """Return one column as an Arrow array; missing values of pandas become nulls, mixed types raise."""
    try:
        if isinstance(values, pa.Array | pa.ChunkedArray):
            return values
        objects = getattr(getattr(values, "dtype", None), "kind", "") == "O"
        return pa.array(values, from_pandas=objects or hasattr(values, "iloc"))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"column {name!r} cannot be read ({reason:.120}); all its values need one type: cast it first"
        ) from None
