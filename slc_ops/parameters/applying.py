"""Correct a file: stream its rows through a parameter set into another file; all columns are kept."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.base.buffers import as_arrow
from slc_ops.base.errors import InputError, SettingsError
from slc_ops.base.files import replacing
from slc_ops.base.ids import as_ids
from slc_ops.numerics.kernels import sigmoid
from slc_ops.parameters.effects import COLUMNS
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.rows import columns as contract
from slc_ops.rows.reading import Source, converted, open_source

ADDED = ("p_base", "p_corrected")


def apply_file(
    parameters: ParameterSet,
    source: Path,
    target: Path,
    rename: Mapping[str, str] | None = None,
    *,
    formulas: bool = False,
) -> int:
    """Write ``source`` with ``p_base`` and ``p_corrected`` to ``target``; return the number of rows.

    In CSV, text that a spreadsheet would evaluate gets an apostrophe, unless ``formulas`` is True.
    """
    rename = rename or {}
    rows = open_source(source, rename)
    _check_columns(rows, rename, parameters)
    schema = pa.schema(
        [*((name, kind) for name, kind in rows.types.items()), *((name, pa.float64()) for name in ADDED)]
    )
    written = 0
    with replacing(target, shared=True) as temporary, _writer(temporary, target.suffix, schema) as write:
        for batch in rows.batches(list(rows.types)):
            added = _corrected(parameters, rows, rename, batch, written)
            kept = batch.columns if formulas or target.suffix != ".csv" else map(_no_formula, batch.columns)
            write(pa.record_batch([*kept, *added], schema=schema))
            written += batch.num_rows
    return written


def _corrected(
    parameters: ParameterSet, rows: Source, rename: Mapping[str, str], batch: pa.RecordBatch, first: int
) -> tuple[pa.Array, pa.Array]:
    def read(name: str, convert: Callable[..., Any], extra: str = "") -> Any:
        return converted(rows, rename, convert, batch.column(rename.get(name, name)), first, extra)

    score = "logit" if rename.get("logit", "logit") in rows.types else "probability"
    logit = read(score, contract.as_logits, score).astype(np.float64)
    # A row without a group or a user counts as one of an unknown group or user.
    ids = {
        name: batch.column(rename.get(column, column))
        for name, column in COLUMNS.items()
        if name in parameters.effects
    }
    if "item" in ids:
        ids["item"] = read("item_id", as_ids, "item_id")
    time = read("event_time", contract.as_times) if parameters.needs_time else None
    corrected = parameters.probabilities(parameters.found(ids, logit, time))
    return as_arrow(sigmoid(logit)), as_arrow(corrected)


def _check_columns(rows: Source, rename: Mapping[str, str], parameters: ParameterSet) -> None:
    """Raise `InputError` for missing columns; only those that the parameter set uses are required."""
    wanted = [COLUMNS[name] for name in parameters.effects]
    if parameters.needs_time:
        wanted.append("event_time")
    missing = [name for name in wanted if rename.get(name, name) not in rows.types]
    scores = [name for name in ("logit", "probability") if rename.get(name, name) in rows.types]
    if missing or not scores:
        missing += [] if scores else ["logit (or probability)"]
        raise InputError(
            f"{rows.describe()} has no column {' and no column '.join(missing)}, which {parameters.method} "
            f"needs; it has {', '.join(rows.types)} (rename with --map item_id=your_name)"
        )
    taken = [name for name in ADDED if name in rows.types]
    if taken:
        raise InputError(f"{rows.describe()} already has a column {taken[0]}; remove or rename it first")


def _no_formula(column: pa.Array) -> pa.Array:
    """Prefix text that a spreadsheet would evaluate with an apostrophe; keep plain numbers."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return column
    plain = column.cast(kind)
    number = pc.match_substring_regex(plain, r"^[+-]\d*\.?\d+([eE][+-]?\d+)?$")
    formula = pc.and_not(pc.match_substring_regex(plain, r"^[=+\-@\t\r]"), number)
    quoted = pc.binary_join_element_wise(pa.scalar("'", kind), plain, pa.scalar("", kind))
    return pc.if_else(formula, quoted, plain).cast(column.type)


@contextmanager
def _writer(path: Path, suffix: str, schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], Any]]:
    if suffix == ".parquet":
        import pyarrow.parquet as pq

        with pq.ParquetWriter(path, schema, compression="zstd") as parquet:
            yield parquet.write_batch
    elif suffix == ".csv":
        import pyarrow.csv

        with pyarrow.csv.CSVWriter(path, schema) as text:
            yield text.write_batch
    elif suffix in (".feather", ".arrow"):
        with pa.OSFile(str(path), "wb") as stream, pa.ipc.new_file(stream, schema) as feather:
            yield feather.write_batch
    else:
        raise SettingsError(f"cannot write {suffix!r} files; expected .parquet, .csv or .feather")
