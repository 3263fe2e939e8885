"""The interaction log: validated rows as compact columns, with item ids as dictionary codes.

A log is read once (:mod:`slc_ops.rows.loading`). The columns that every fit needs (code, label, logit,
weight: 9 to 21 bytes a row) stay in memory or, beyond a budget, in a temporary file. The columns of some
analyses (time, user, group) are read on first use; with known items, so are all others.
"""

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slc_ops.base.buffers import as_arrow, as_numpy
from slc_ops.base.digests import digest_bytes
from slc_ops.base.errors import InputError
from slc_ops.rows.columns import CONTRACT_COLUMNS
from slc_ops.rows.loading import Loader
from slc_ops.rows.passes import Partial, in_spans, workers
from slc_ops.rows.reading import Source, TableSource, open_source, with_offsets
from slc_ops.rows.rows import (
    NO_COLUMNS,
    NO_LATER_ROW,
    TIME,
    Columns,
    InSpans,
    ReadableRows,
    Rows,
    rows_per_item,
)
from slc_ops.rows.store import Column, memory_budget

Floats = NDArray[np.float64]
EVERY_FIT = ("item_id", "label", "logit", "weight")
IN_MEMORY_ROWS = 1 << 25
_DIGEST_ROWS = 1 << 20


class InteractionLog(InSpans):
    """Validated rows of the log's contract.

    >>> log = InteractionLog.from_table(
    ...     pa.table({"item_id": ["b", "a", "b"], "label": [1, 0, 1], "logit": [0.5, 0.0, -1.0]})
    ... )
    >>> log.n_rows, log.items.to_pylist(), log.item_codes.tolist()
    (3, ['b', 'a'], [0, 1, 0])
    """

    def __init__(
        self,
        source: Source,
        *,
        rename: Mapping[str, str] | None = None,
        memory: int | None = None,
        items: pa.Array | None = None,
        times: bool = False,
    ) -> None:
        self._loader = Loader(source, rename or {})
        self._source, self._times_too = source, times
        self._n_rows: int = source.n_rows
        self._budget = memory_budget() if memory is None else memory
        self._reading = threading.RLock()
        self._columns: dict[str, Column] = {}  # columns read so far
        self._ids: dict[str, pa.Array] = {}  # ids of users and groups
        self._whole: tuple[InteractionLog, int] | None = None
        self._translation: pa.Array | None = None
        self.items: pa.Array = items
        if items is None:
            self._column("item_id")

    @classmethod
    def read(
        cls,
        source: str | Path | Sequence[str | Path],
        *,
        rename: Mapping[str, str] | None = None,
        times: bool = False,
    ) -> "InteractionLog":
        """Read Parquet, CSV or Feather files or directories; several are joined in the given order.

        ``rename`` maps a contract's column to the file's (``{"item_id": "pid"}``); with ``times`` event times
        are read in the same pass.
        """
        return cls(open_source(source, rename or {}), rename=rename, times=times)

    @classmethod
    def from_table(cls, table: pa.Table) -> "InteractionLog":
        """Create a log from the rows of an Arrow table."""
        return cls(TableSource(table))

    @classmethod
    def from_rows(
        cls, rows: Rows, items: pa.Array, users: pa.Array | None = None, groups: pa.Array | None = None
    ) -> "InteractionLog":
        """Create a log from rows in memory, without a copy; users and groups only with their ids."""
        own: dict[str, NDArray[Any]] = {"label": rows.label, "logit": rows.logit}
        own |= {} if rows.weight is None else {"weight": rows.weight}
        own |= {} if rows.time is None else {"event_time": rows.time}
        columns = {name: as_arrow(values) for name, values in own.items()}
        ids = {"item_id": (rows.codes, items), "user_id": (rows.user, users)}
        for name, (codes, known) in (ids | {"group_id": (rows.group, groups)}).items():
            if codes is not None and known is not None:
                indices = pa.array(codes, mask=codes < 0)
                columns[name], own[name] = pa.DictionaryArray.from_arrays(indices, known), codes
        log = cls(TableSource(pa.table(columns)), items=items)
        log._columns = {name: Column.of(values) for name, values in own.items()}
        log._ids = {"user_id": users, "group_id": groups}
        return log

    def within(self, whole: "InteractionLog", first: int) -> Self:
        """Let this log, whose items are known, share the rows ``first, first + 1, …`` of another one.

        If its items are not a prefix of the whole log's, its codes are translated and stored.
        """
        if not whole.items.slice(0, len(self.items)).equals(self.items):
            self._translation = pc.index_in(whole.items, value_set=self.items)
            if len(self._translation) - self._translation.null_count != len(self.items):
                raise InputError(f"{self.describe()} is no part of {whole.describe()}: their items differ")
        self._whole = whole, first
        return self

    @property
    def n_rows(self) -> int:
        """Return the number of rows."""
        return self._n_rows

    def has(self, column: str) -> bool:
        """Return True when the source has this column of the contract."""
        return self._loader.has(column)

    def called(self, column: str) -> str:
        """Return the source's name of a column of the contract."""
        return self._loader.called(column)

    @property
    def columns(self) -> dict[str, pa.DataType]:
        """Return all columns of the source with their types, used or not."""
        return dict(self._source.types)

    def describe(self) -> str:
        """Return the origin of the rows, for messages."""
        return self._source.describe()

    # --- spans of rows, for passes --------------------------------------------------------------------

    def in_memory(self) -> "InteractionLog | None":
        """Return this log; None when work on all rows at once would take too much memory."""
        return self if self.n_rows <= IN_MEMORY_ROWS else None

    def sample(self, firsts: Sequence[int], length: int, columns: Columns = NO_COLUMNS) -> list[Rows]:
        """Return ``length`` rows from each of the given row numbers on."""
        return [self.rows(first, first + length, columns) for first in firsts]

    def rows(self, first: int, last: int, columns: Columns = NO_COLUMNS) -> Rows:
        """Return rows ``first`` to ``last`` (exclusive); users and groups as codes, −1 for no value.

        Raises :class:`InputError` when times are requested and missing; missing users and groups are omitted.
        """
        if "time" in columns and not self.has("event_time"):
            raise InputError(f"{self.describe()} has no column event_time, which this method needs")

        def read(name: str) -> NDArray[Any]:
            return self._column(name).read(first, last)

        return Rows(
            read("item_id"),
            read("label"),
            read("logit"),
            read("weight") if self.weighted else None,
            read("event_time") if "time" in columns else None,
            read("user_id") if "user" in columns and self.has("user_id") else None,
            read("group_id") if "group" in columns and self.has("group_id") else None,
        )

    def cut(self, timestamp: float) -> tuple["InteractionLog", "InteractionLog"]:
        """Return the rows up to and including a timestamp, and the rows after it; raise if none is later."""
        if self.time is None:
            raise InputError(f"{self.describe()} has no column event_time, so it cannot be cut in time")
        later = self.time > timestamp
        if not later.any():
            raise InputError(NO_LATER_ROW.format(self.describe()))
        used = [self._loader.called(name) for name in CONTRACT_COLUMNS if name != "event_id"]
        columns = [name for name in self._source.types if name in used]
        parts: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = [], []
        for first, batch in with_offsets(self._source.batches(columns)):
            chosen = later[first : first + batch.num_rows]
            for part, rows in zip(parts, (~chosen, chosen), strict=True):
                part.append(batch.take(as_arrow(np.flatnonzero(rows))))
        tables = [TableSource(pa.Table.from_batches(part)) for part in parts]
        before, after = (InteractionLog(table, rename=self._loader.rename) for table in tables)
        return before, after

    def over_splits(
        self, work: Callable[[ReadableRows], Partial], *, columns: Columns = NO_COLUMNS
    ) -> Partial:
        """Return the result of ``work``: a local log is one split."""
        return work(self)

    def user_ids(self) -> Iterator[tuple[int, pa.Array]]:
        """Yield the first row number and the users of each batch; nothing is cached."""
        return self._loader.user_ids()

    def _column(self, name: str) -> Column:
        """Return a column; the first caller reads it while others wait."""
        with self._reading:
            if name not in self._columns:
                self._columns |= self._read_with(name)
            return self._columns[name]

    def _read_with(self, name: str) -> dict[str, Column]:
        """Read a column, and those of the same pass."""
        if self._whole is not None and name in (*EVERY_FIT, "event_time"):
            whole, first = self._whole
            column = whole._column(name).part(first, first + self.n_rows)
            if name == "item_id" and self._translation is not None:
                column = column.translated(as_numpy(self._translation.fill_null(-1)))
            return {name: column}
        names = [name]
        if name in EVERY_FIT:
            names = [each for each in EVERY_FIT if each == "logit" or self.has(each)]
            names += ["event_time"] if self._times_too and self.has("event_time") else []
        kept = sum(column.nbytes for column in self._columns.values() if not column.spilled)
        numbers = name in (*EVERY_FIT, "event_time")  # codes of users and groups stay in memory
        columns, ids = self._loader.load(names, self._budget - kept if numbers else math.inf)
        found = ids.pop("item_id", None)
        if found is not None and self.items is None:
            self.items = found
        elif found is not None and not found.equals(self.items):
            raise InputError(
                f"{self.describe()} holds {len(found)} items, but {len(self.items)} others were "
                "expected: the cached data belong to other rows"
            )
        self._ids |= ids
        return columns

    def _whole_column(self, name: str) -> NDArray[Any]:
        return self._column(name).read(0, self.n_rows)

    def _meaning(self, name: str) -> pa.Array | None:
        """Return the ids of a column's codes; None without that column."""
        if not self.has(name):
            return None
        self._column(name)
        return self._ids[name]

    # --- whole columns, one entry per row -------------------------------------------------------------

    @property
    def item_codes(self) -> NDArray[np.int32]:
        """Return the item code of each row: ``items[item_codes[k]]``."""
        return self._whole_column("item_id")

    @cached_property
    def item_counts(self) -> NDArray[np.int64]:
        """Return the number of rows per item, without rows of weight 0."""
        size = len(self.items)
        return self.add_up(partial(rows_per_item, size), n_keys=size).values.astype(np.int64)

    @property
    def label(self) -> NDArray[np.int8]:
        """Return the labels, 0 or 1."""
        return self._whole_column("label")

    @cached_property
    def logit(self) -> Floats:
        """Return the frozen backbone's logits."""
        return self._whole_column("logit").astype(np.float64, copy=False)

    @cached_property
    def weight(self) -> Floats:
        """Return observation weights; ones when the log has none."""
        if not self.weighted:
            return np.ones(self.n_rows)
        return self._whole_column("weight").astype(np.float64, copy=False)

    @property
    def weighted(self) -> bool:
        """Return True when the log has a column of weights."""
        return self.has("weight")

    @cached_property
    def time(self) -> Floats | None:
        """Return seconds since 1970 (UTC) or the number given as ``event_time``; None without that column."""
        return self._whole_column("event_time") if self.has("event_time") else None

    @property
    def user_codes(self) -> NDArray[np.int32] | None:
        """Return user codes in order of appearance; None without ``user_id``."""
        return self._whole_column("user_id") if self.has("user_id") else None

    @property
    def users(self) -> pa.Array | None:
        """Return the user ids; code ``k`` means ``users[k]``; None without ``user_id``."""
        return self._meaning("user_id")

    @property
    def groups(self) -> pa.Array | None:
        """Return the distinct groups, as text, in order of appearance; None without ``group_id``."""
        return self._meaning("group_id")

    @cached_property
    def backbone_versions(self) -> tuple[str, ...]:
        """Return the distinct backbone versions, sorted; empty without that column."""
        if not self.has("backbone_version"):
            return ()
        found: set[str] = set()
        for _, column in self._loader.pieces("backbone_version"):
            found.update(str(value) for value in column.unique().to_pylist() if value is not None)
        return tuple(sorted(found))

    def as_table(self) -> pa.Table:
        """Return the inputs of a fit: items (dictionary-encoded), labels, logits, weights, times."""
        columns = {
            "item_id": pa.DictionaryArray.from_arrays(as_arrow(self.item_codes), self.items),
            "label": as_arrow(self.label),
            "logit": as_arrow(self._whole_column("logit")),
        }
        if self.weighted:
            columns["weight"] = as_arrow(self._whole_column("weight"))
        if self.time is not None:
            columns["event_time"] = as_arrow(self.time)
        return pa.table(columns)

    def digest(self, threads: int | None = None) -> str:
        """Return the SHA-256 of a fit's inputs: item ids, labels, logits, weights and times, in row order.

        It covers a header (numbers of rows and items, the items' type, lengths and text) and one digest for
        each 2²⁰ rows, column after column; threads digest the spans.
        """
        plain = self.items.cast(pa.string())
        header = [
            f"{self.n_rows} rows, {len(self.items)} items of {self.items.type}".encode(),
            np.diff(np.frombuffer(plain.buffers()[1], np.int32, len(plain) + 1)).data,
            plain.buffers()[2] or b"",
        ]
        columns = TIME if self.has("event_time") else NO_COLUMNS

        def of_span(first: int, last: int) -> bytes:
            rows = self.rows(first, last, columns)
            numbers = (each for each in (rows.logit, rows.weight, rows.time) if each is not None)
            data = chain((rows.codes, rows.label), (np.asarray(each, np.float64) for each in numbers))
            return bytes.fromhex(digest_bytes(np.ascontiguousarray(each).data for each in data))

        spans = in_spans(of_span, self.n_rows, workers(threads), _DIGEST_ROWS)
        return digest_bytes(chain(header, spans))


def read_history(path: Path, rename: Mapping[str, str]) -> InteractionLog:
    """Read event times (and weights) of earlier rows, which help to place time bins.

    Raises :class:`InputError` when the file has no ``event_time`` or cannot be read.
    """
    source = open_source(path, rename)
    wanted = {name: rename.get(name, name) for name in ("event_time", "weight")}
    if wanted["event_time"] not in source.types:
        raise InputError(
            f"{path} has no column {wanted['event_time']}, which a history needs; it has "
            f"{', '.join(source.types)} (rename with --map event_time=your_name)"
        )
    columns = {name: column for name, column in wanted.items() if column in source.types}
    table = pa.Table.from_batches(list(source.batches(list(columns.values())))).rename_columns(list(columns))
    blank = {"item_id": np.zeros(table.num_rows, np.int64), "label": np.zeros(table.num_rows, np.int8),
             "logit": np.zeros(table.num_rows)}  # fmt: skip
    for name, values in blank.items():
        table = table.append_column(name, pa.array(values))
    return InteractionLog.from_table(table)
