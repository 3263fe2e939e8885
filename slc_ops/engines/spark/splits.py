"""Parts of Parquet files, and their cached columns.

A *split* is a run of row groups of one file: about two million rows, determined by the file alone, so that
the same files give the same splits on every cluster. A Python worker reads its split like the local engine
(same checks, same errors) and caches the compact columns for the next pass, in memory up to
``SLC_OPS_MEMORY_MB`` and in a temporary file beyond. When a worker dies, only its copy is lost: the next
worker reads the split again.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slc_ops.base.buffers import as_numpy
from slc_ops.base.errors import InputError
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.reading import ParquetSource, Source, TableSource
from slc_ops.rows.rows import NO_COLUMNS, Columns, InSpans, Rows
from slc_ops.rows.store import memory_budget

SPLIT_ROWS = 1 << 21
MOST_OPEN = 4096  # translations of codes that a worker caches


@dataclass(frozen=True)
class Split:
    """Row groups ``groups[0]`` to ``groups[1]`` (exclusive) of a file; ``first`` is its first row number."""

    number: int
    path: str
    groups: tuple[int, int]
    first: int
    rows: int
    after: float = -math.inf
    until: float = math.inf

    @property
    def cut(self) -> bool:
        """Return True when only rows with ``after`` < event time ≤ ``until`` belong to it."""
        return self.after > -math.inf or self.until < math.inf


def parquet(path: Path) -> ParquetSource:
    """Open a file for the cluster; raise unless it is Parquet."""
    if path.suffix != ".parquet":
        raise InputError(f"{path}: a cluster reads Parquet files only; write it as Parquet first")
    return ParquetSource(path)


def plan_splits(files: Sequence[ParquetSource]) -> list[Split]:
    """Divide files into splits, in row order; omit row groups without rows."""
    splits: list[Split] = []
    first = 0
    for file in files:
        begin, rows = 0, 0
        sizes = file.group_rows
        for group, size in enumerate(sizes, 1):
            rows += size
            if rows >= SPLIT_ROWS or (group == len(sizes) and rows):
                splits.append(Split(len(splits), file.describe(), (begin, group), first, rows))
                first, begin, rows = first + rows, group, 0
    return splits


class Dictionaries:
    """The ids of a log's codes (``items``, ``users``, ``groups``), as broadcast variables.

    A worker fetches them on first use.
    """

    def __init__(self, key: str, shared: dict[str, Any]) -> None:
        self.key, self._shared = key, shared

    def __getitem__(self, name: str) -> pa.Array:
        """Return the ids; code ``k`` means the ``k``-th."""
        return self._shared[name].value

    def translation(self, name: str, local: pa.Array) -> NDArray[np.int32]:
        """Return the log's code of each of a split's own ids."""
        import pyarrow.compute as pc

        found = pc.index_in(local, value_set=self[name])
        if found.null_count:
            raise InputError(
                f"the identifier {local.filter(found.is_null())[0]} is not in the dictionary of its log: a "
                "file was changed while it was being read; refresh again"
            )
        return as_numpy(found).astype(np.int32)


class SplitRows(InSpans):
    """A split's rows, with the codes of the whole log."""

    def __init__(self, split: Split, rows: InteractionLog, dictionaries: Dictionaries) -> None:
        self.split, self.log, self.dictionaries = split, rows, dictionaries

    @property
    def n_rows(self) -> int:
        """Return the number of rows."""
        return self.log.n_rows

    @property
    def items(self) -> pa.Array:
        """Return the items of the whole log."""
        return self.dictionaries["items"]

    def user_ids(self) -> Iterator[tuple[int, pa.Array]]:
        """Yield the first row number within the split and the users of each batch."""
        return self.log.user_ids()

    def rows(self, first: int, last: int, columns: Columns = NO_COLUMNS) -> Rows:
        """Return rows ``first`` to ``last`` (exclusive) of the split."""
        found = self.log.rows(first, last, columns)
        users: NDArray[np.integer] | None = None
        if found.user is not None:
            users = self._users[found.user]
        elif "user" in columns:  # without user_id each row is its own user
            users = self.split.first + np.arange(first, last)
        return Rows(
            self._items[found.codes],
            found.label,
            found.logit,
            found.weight,
            found.time,
            users,
            None if found.group is None else self._groups[found.group],
        )

    @cached_property
    def _items(self) -> NDArray[np.int32]:
        return self.dictionaries.translation("items", self.log.items)

    @cached_property
    def _users(self) -> NDArray[np.int32]:
        return self.dictionaries.translation("users", self.log.users)

    @cached_property
    def _groups(self) -> NDArray[np.int32]:
        # The last entry is at index −1: a row without a group keeps −1.
        return np.append(self.dictionaries.translation("groups", self.log.groups), np.int32(-1))


_read: dict[tuple[Any, ...], InteractionLog] = {}
_open: dict[tuple[Any, ...], SplitRows] = {}


def read_split(split: Split) -> InteractionLog:
    """Return the split's rows; each worker reads them once, and again when the file was replaced."""
    stat = Path(split.path).stat() if Path(split.path).exists() else None
    # Keyed by inode: the windows that a plan pins are other names of the same files.
    file = split.path if stat is None else (stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size)
    key = (file, split.groups, split.after, split.until)
    if key not in _read:
        source: Source = ParquetSource(Path(split.path), groups=split.groups)
        if split.cut:
            source = _rows_between(source, split.after, split.until)
        if source.n_rows != split.rows:
            raise InputError(f"{split.path} has changed while it was being read; refresh again")
        used = sum(log.n_rows for log in _read.values()) * 16
        _read[key] = InteractionLog(source, memory=max(0, memory_budget() - used))
    return _read[key]


def _rows_between(source: Source, after: float, until: float) -> TableSource:
    """Return the rows with ``after`` < event time ≤ ``until``."""
    table = pa.Table.from_batches(source.batches(list(source.types)))
    time = InteractionLog.from_table(table).time
    assert time is not None  # noqa: S101 - a log without times is not cut
    return TableSource(table.filter(as_mask((time > after) & (time <= until))), source.describe())


def as_mask(rows: NDArray[np.bool_]) -> pa.Array:
    """Return a mask as an Arrow array."""
    bits = pa.py_buffer(np.packbits(rows, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(rows), [None, bits])


def open_split(split: Split, dictionaries: Dictionaries) -> SplitRows:
    """Return the split's rows with the codes of its log."""
    key = (dictionaries.key, split.number)
    rows = read_split(split)
    if key not in _open or _open[key].log is not rows:
        if len(_open) >= MOST_OPEN:
            _open.clear()
        _open[key] = SplitRows(split, rows, dictionaries)
    _open[key].dictionaries = dictionaries  # each pass has its own set of dictionaries
    return _open[key]
