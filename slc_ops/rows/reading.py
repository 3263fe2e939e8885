"""Sources of rows: Parquet, Feather and CSV files or directories of them, or an Arrow table.

A source has columns and a number of rows, and streams any of its columns in row order, any number of times.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from slc_ops.base.buffers import as_arrow
from slc_ops.base.errors import BadRowsError, ColumnError, InputError
from slc_ops.base.tabular import SUFFIXES, TabularFile, suffix_of
from slc_ops.base.threads import made_ahead
from slc_ops.rows.columns import as_logits

BATCH_ROWS = 1 << 18


class Source(Protocol):
    """Rows that can be streamed, column by column, in a fixed order."""

    @property
    def types(self) -> Mapping[str, pa.DataType]: ...

    @property
    def n_rows(self) -> int: ...

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]: ...

    def describe(self) -> str: ...


class TableSource:
    """An Arrow table in memory."""

    def __init__(self, table: pa.Table, name: str = "the table") -> None:
        self._table, self._name = table, name
        self.types = {field.name: field.type for field in table.schema}
        self.n_rows: int = table.num_rows

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        yield from self._table.select(list(columns)).to_batches(max_chunksize=BATCH_ROWS)

    def describe(self) -> str:
        return self._name


class ParquetSource:
    """A Parquet file, or some of its row groups, decoded one batch ahead of its reader."""

    def __init__(self, path: Path, groups: tuple[int, int] | None = None) -> None:
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(path) as file:
                self.types = {field.name: field.type for field in file.schema_arrow}
                wanted = range(*(groups or (0, file.num_row_groups)))
                self.group_rows = [file.metadata.row_group(k).num_rows for k in wanted]
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path} cannot be read as Parquet: {error}") from None
        self.n_rows: int = sum(self.group_rows)
        self._path, self._groups = path, groups

    def batches(self, columns: Sequence[str], *, as_written: bool = False) -> Iterator[pa.RecordBatch]:
        import pyarrow.parquet as pq

        # Text stays dictionary-encoded as in the file, without a string per row.
        text = [name for name in columns if pa.types.is_string(self.types[name]) and not as_written]
        try:
            with pq.ParquetFile(self._path, read_dictionary=text, page_checksum_verification=True) as file:
                groups = None if self._groups is None else list(range(*self._groups))
                batches = file.iter_batches(BATCH_ROWS, row_groups=groups, columns=list(columns))
                with closing(made_ahead(batches)) as ahead:
                    for batch in ahead:
                        yield batch.select(list(columns))  # in the requested order
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{self._path} cannot be read to its end: {error}") from None

    def describe(self) -> str:
        if self._groups is None:
            return str(self._path)
        return f"{self._path} (row groups {self._groups[0]} to {self._groups[1] - 1})"


class Joined:
    """Several sources, one after the other.

    If only some have weights, the others get weight 1; if only some have logits, the others' are computed.
    """

    def __init__(self, parts: Sequence[Source], rename: Mapping[str, str]) -> None:
        self._parts = parts
        names = ("weight", "logit", "probability")
        self._weight, self._logit, self._probability = (rename.get(name, name) for name in names)
        known = {name for part in parts for name in part.types}
        types = [self._with_added(part.types, known) for part in parts]
        shared = [name for name in types[0] if all(name in each for each in types)]
        self.types = {name: _widest([each[name] for each in types]) for name in shared}
        self.n_rows = sum(part.n_rows for part in parts)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for part in self._parts:
            read = [name for name in columns if name in part.types]
            if self._logit in columns and self._logit not in part.types and self._probability not in read:
                read.append(self._probability)
            for first, batch in with_offsets(part.batches(read or list(part.types)[:1])):
                values = [self._column(part, name, batch, first) for name in columns]
                yield pa.record_batch(values, list(columns))

    def describe(self) -> str:
        return f"{self._parts[0].describe()} and {len(self._parts) - 1} more"

    def _with_added(self, types: Mapping[str, pa.DataType], known: set[str]) -> dict[str, pa.DataType]:
        """Return the columns of a part with those that it gets because other parts have them."""
        added = [self._weight, *([self._logit] if self._probability in types else [])]
        return {**types, **{name: pa.float64() for name in added if name in known - {*types}}}

    def _column(self, part: Source, name: str, batch: pa.RecordBatch, first: int) -> pa.Array:
        if name in part.types:
            return batch.column(name)
        if name == self._weight:
            return as_arrow(np.ones(batch.num_rows))
        scores, called = batch.column(self._probability), {"probability": self._probability}
        return as_arrow(converted(part, called, as_logits, scores, first, "probability"))


def with_offsets(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield each batch with the number of its first row."""
    first = 0
    for batch in batches:
        yield first, batch
        first += batch.num_rows


def converted(
    source: Source,
    rename: Mapping[str, str],
    convert: Callable[..., Any],
    column: pa.Array,
    first: int,
    name: str = "",
) -> Any:
    """Convert and validate a batch of a column; for bad rows, count them in the whole source, then raise.

    Errors name the source and its name of the column.
    """
    extra = (name,) if name else ()
    try:
        return convert(column, *extra, first)
    except BadRowsError as error:
        count = 0
        called = rename.get(error.column, error.column)
        for position, batch in with_offsets(source.batches([called])):
            try:
                convert(batch.column(0), *extra, position)
            except BadRowsError as another:
                count += another.count if another.rule == error.rule else 0
        whole = BadRowsError(error.column, error.rule, count, error.first, error.value)
        whole.where, whole.called = source.describe(), called
        raise whole from None
    except ColumnError as error:
        error.where, error.called = source.describe(), rename.get(error.column, error.column)
        raise


def _widest(types: list[pa.DataType]) -> pa.DataType:
    if len(set(types)) == 1:
        return types[0]
    return pa.string() if any(map(pa.types.is_string, types)) else pa.float64()


def open_source(source: str | Path | Sequence[str | Path], rename: Mapping[str, str]) -> Source:
    """Open files and directories as one source, in the given order."""
    given = [source] if isinstance(source, str | Path) else list(source)
    files = [file for entry in given for file in files_of(Path(entry))]
    if not files:
        raise InputError("no input file was given")
    return joined([_open_file(file) for file in files], rename)


def joined(parts: Sequence[Source], rename: Mapping[str, str]) -> Source:
    """Join several sources, in the given order."""
    return parts[0] if len(parts) == 1 else Joined(parts, rename)


def files_of(path: Path) -> list[Path]:
    """Return a file itself, or the sorted data files of a directory (of a Hive lake only its partitions)."""
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise InputError(
            f"{path} does not exist; expected {', '.join(SUFFIXES)} or a directory of such files"
        )
    parts = sorted(entry for entry in path.iterdir() if entry.is_dir() and "=" in entry.name)
    found = [file for part in parts for file in files_of(part)] if parts else _data_files(path)
    if not found:
        raise InputError(f"{path} holds no {', '.join(SUFFIXES)} file")
    return found


def _data_files(directory: Path) -> list[Path]:
    return sorted(
        file
        for file in directory.rglob("*")
        if suffix_of(file) in SUFFIXES and file.is_file() and not file.name.startswith((".", "_"))
    )


def _open_file(path: Path) -> Source:
    if path.suffix == ".parquet":
        return ParquetSource(path)
    suffix = suffix_of(path)
    if suffix not in SUFFIXES:
        raise InputError(f"{path} has the suffix {path.suffix!r}; expected one of {', '.join(SUFFIXES)}")
    try:
        table = TabularFile(path).table()
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path} cannot be read as {suffix[1:]}: {error}") from None
    if table.num_columns == 1 and suffix.startswith(".csv"):
        _refuse_other_separators(path, table.column_names[0])
    return TableSource(table, str(path))


def _refuse_other_separators(path: Path, header: str) -> None:
    """Raise for a CSV with a single column such as "item_id;label;logit": it has another separator."""
    for separator, name in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        if separator in header:
            raise InputError(
                f"{path} has one column {header!r}: its fields are separated by {name}; expected commas (in "
                f"pandas: pd.read_csv(..., sep={separator!r}), then write it again)"
            )
