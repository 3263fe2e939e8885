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
    """Several sources, one after the other."""

    def __init__(self, parts: Sequence[Source]) -> None:
        self._parts = parts
        shared = [name for name in parts[0].types if all(name in part.types for part in parts)]
        self.types = {name: _widest([part.types[name] for part in parts]) for name in shared}
        self.n_rows = sum(part.n_rows for part in parts)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        for part in self._parts:
            yield from part.batches(columns)

    def describe(self) -> str:
        return f"{self._parts[0].describe()} and {len(self._parts) - 1} more"


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


class Completed:
    """A source with columns that others of the input have: a weight of 1, logits from probabilities."""

    def __init__(self, source: Source, weight: str | None, logit: tuple[str, str] | None) -> None:
        self._source, self._weight = source, weight
        self._logit, self._probability = logit or ("", "")
        self.n_rows = source.n_rows
        added = {} if weight is None else {weight: pa.float64()}
        self.types = {**source.types, **added, **({self._logit: pa.float64()} if logit else {})}

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        read = {name: self._probability if name == self._logit else name for name in columns}
        kept = [name for name in dict.fromkeys(read.values()) if name != self._weight]
        for first, batch in with_offsets(self._source.batches(kept or list(self._source.types)[:1])):
            values = {name: batch.column(each) for name, each in read.items() if each != self._weight}
            if self._logit in read:
                scores = batch.column(self._probability)
                named = {"probability": self._probability}
                found = converted(self._source, named, as_logits, scores, first, "probability")
                values[self._logit] = as_arrow(found)
            if self._weight in read:
                values[self._weight] = as_arrow(np.ones(batch.num_rows))
            yield pa.record_batch([values[name] for name in columns], list(columns))

    def describe(self) -> str:
        return self._source.describe()


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
    """Join several sources, in the given order.

    If only some have weights, the others get weight 1; if only some have logits, the others' are computed.
    """
    weight, logit, probability = (rename.get(name, name) for name in ("weight", "logit", "probability"))
    having = {name: [name in part.types for part in parts] for name in (weight, logit)}

    def completed(part: Source) -> Source:
        ones = weight if any(having[weight]) and weight not in part.types else None
        scores = any(having[logit]) and logit not in part.types and probability in part.types
        pair = (logit, probability) if scores else None
        return part if ones is None and pair is None else Completed(part, ones, pair)

    return parts[0] if len(parts) == 1 else Joined([completed(part) for part in parts])


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
