"""The interaction log: holds validated rows as compact columns, item ids as dictionary codes.

A log is read once (:mod:`slc_ops.rows.loading`). What every fit needs (code, label, logit, weight: 9 to 21
bytes a row) is kept, in memory or beyond a budget in a temporary file; what only some analyses need (time,
user, group) is read when it is first asked for. A log whose items are known beforehand reads its rows only
when they are needed.
"""

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slc_ops.base.errors import InputError
from slc_ops.rows.buffers import as_arrow, as_numpy
from slc_ops.rows.columns import CONTRACT_COLUMNS
from slc_ops.rows.loading import Loader
from slc_ops.rows.passes import Partial, in_spans
from slc_ops.rows.reading import Source, TableSource, open_source
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
from slc_ops.rows.store import ColumnStore, memory_budget

Floats = NDArray[np.float64]
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
        self._loader = Loader(source, rename or {}, memory_budget() if memory is None else memory)
        self._source, self._times_too = source, times
        self._n_rows: int = source.n_rows
        self._reading, self._reading_times, self._reading_users = (threading.Lock() for _ in range(3))
        self._store: ColumnStore | None = None
        self._time_store: ColumnStore | None = None
        self._user_store: tuple[NDArray[np.int32], pa.Array] | None = None
        self._whole: tuple[InteractionLog, int] | None = None
        self._translation: pa.Array | None = None
        if items is None:
            self._store, items = self._load()
        self.items: pa.Array = items

    @classmethod
    def read(
        cls,
        source: str | Path | Sequence[str | Path],
        *,
        rename: Mapping[str, str] | None = None,
        memory: int | None = None,
        times: bool = False,
    ) -> "InteractionLog":
        """Read Parquet, CSV or Feather files or directories; several are joined in the given order.

        ``rename`` maps a contract's column to the file's (``{"item_id": "pid"}``); ``memory`` is the number
        of bytes to keep before rows go to a temporary file; ``times`` says that event times will be needed,
        so that one pass over the file brings them too.
        """
        return cls(open_source(source, rename or {}), rename=rename, memory=memory, times=times)

    @classmethod
    def from_table(cls, table: pa.Table) -> "InteractionLog":
        """Take the rows of an Arrow table."""
        return cls(TableSource(table))

    @classmethod
    def from_rows(cls, rows: Rows, items: pa.Array) -> "InteractionLog":
        """Take rows that have been read, with their items, times and weights; nothing is copied."""
        own: dict[str, NDArray[Any]] = {"label": rows.label, "logit": rows.logit}
        if rows.weight is not None:
            own["weight"] = rows.weight
        times = {} if rows.time is None else {"event_time": rows.time}
        ids = pa.DictionaryArray.from_arrays(as_arrow(rows.codes), items)
        columns = {name: as_arrow(values) for name, values in (own | times).items()}
        log = cls(TableSource(pa.table({"item_id": ids, **columns})), items=items)
        log._store = ColumnStore.of({"code": rows.codes, **own})
        log._time_store = None if rows.time is None else ColumnStore.of({"time": rows.time})
        return log

    def within(self, whole: "InteractionLog", first: int) -> Self:
        """Let this log, whose items are known, use rows that another one reads: ``first, first + 1, …``.

        Where its items are not the first ones of the whole log's, its codes are translated and kept.
        """
        if not whole.items.slice(0, len(self.items)).equals(self.items):
            self._translation = pc.index_in(whole.items, value_set=self.items)
            if len(self._translation) - self._translation.null_count != len(self.items):
                raise InputError(f"{self.describe()} is no part of {whole.describe()}: their items differ")
        self._whole = whole, first
        return self

    @property
    def n_rows(self) -> int:
        """How many rows."""
        return self._n_rows

    def has(self, column: str) -> bool:
        """Whether the source has this column of the contract."""
        return self._loader.has(column)

    def called(self, column: str) -> str:
        """What the source calls a column of the contract."""
        return self._loader.called(column)

    @property
    def columns(self) -> dict[str, pa.DataType]:
        """The columns of the source, whether they are used or not."""
        return dict(self._source.types)

    def describe(self) -> str:
        """Where the rows come from."""
        return self._source.describe()

    # --- spans of rows, for passes --------------------------------------------------------------------

    def in_memory(self) -> "InteractionLog | None":
        """This log; None where work on all rows at once would take too much memory."""
        return self if self.n_rows <= IN_MEMORY_ROWS else None

    def sample(self, firsts: Sequence[int], length: int, columns: Columns = NO_COLUMNS) -> list[Rows]:
        """``length`` rows from each of the given row numbers on."""
        return [self.rows(first, first + length, columns) for first in firsts]

    def rows(self, first: int, last: int, columns: Columns = NO_COLUMNS) -> Rows:
        """Rows ``first`` to ``last`` (exclusive); users and groups as codes, −1 where there is no group.

        Raises :class:`InputError` where times are asked for and there are none; users and groups then are
        None.
        """
        read = self._rows.read
        times = self._times if "time" in columns else None
        if "time" in columns and times is None:
            raise InputError(f"{self.describe()} has no column event_time, which this method needs")
        return Rows(
            self._codes.read("code", first, last),
            read("label", first, last),
            read("logit", first, last),
            read("weight", first, last) if self.weighted else None,
            None if times is None else times.read("time", first, last),
            self.user_codes[first:last] if "user" in columns and self.user_codes is not None else None,
            self._groups[0][first:last] if "group" in columns and self._groups is not None else None,
        )

    def cut(self, timestamp: float) -> tuple["InteractionLog", "InteractionLog"]:
        """The rows up to and including a timestamp, and the rows after it; there must be some."""
        if self.time is None:
            raise InputError(f"{self.describe()} has no column event_time, so it cannot be cut in time")
        later = self.time > timestamp
        if not later.any():
            raise InputError(NO_LATER_ROW.format(self.describe()))
        used = [self._loader.called(name) for name in CONTRACT_COLUMNS if name != "event_id"]
        columns = [name for name in self._source.types if name in used]
        parts: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = [], []
        first = 0
        for batch in self._source.batches(columns):
            chosen = later[first : first + batch.num_rows]
            for part, rows in zip(parts, (~chosen, chosen), strict=True):
                part.append(batch.take(as_arrow(np.flatnonzero(rows))))
            first += batch.num_rows
        tables = [TableSource(pa.Table.from_batches(part)) for part in parts]
        before, after = (InteractionLog(table, rename=self._loader.rename) for table in tables)
        return before, after

    def over_splits(self, work: Callable[[ReadableRows], Partial]) -> Partial:
        """What ``work`` makes of the rows: those of this process are one split."""
        return work(self)

    def user_ids(self) -> Iterator[tuple[int, pa.Array]]:
        """The user of each row, piece by piece, and the number of the piece's first row; nothing is kept."""
        return self._loader.user_ids()

    @property
    def _rows(self) -> ColumnStore:
        """What every fit needs of the rows; read now where the items were known without them."""
        if self._whole is not None:
            whole, first = self._whole
            return whole._rows.part(first, first + self.n_rows)
        with self._reading:
            if self._store is None:
                store, found = self._load()
                if not found.equals(self.items):
                    raise InputError(
                        f"{self.describe()} holds {len(found)} items, but {len(self.items)} others were "
                        "expected: what was kept of these rows belongs to other rows"
                    )
                self._store = store
            return self._store

    @property
    def _codes(self) -> ColumnStore:
        """The rows' item codes; translated by whoever asks first, where a log of more items has read them."""
        if self._whole is None:
            return self._rows
        whole, first = self._whole
        codes = whole._codes.part(first, first + self.n_rows)
        if self._translation is None:
            return codes
        with self._reading:
            if self._store is None:
                self._store = codes.translated("code", as_numpy(self._translation.fill_null(-1)))
            return self._store

    def _load(self) -> tuple[ColumnStore, pa.Array]:
        loaded = self._loader.rows(times=self._times_too)
        if loaded.times is not None:
            self._time_store = loaded.times
        return loaded.rows, loaded.items

    @property
    def _times(self) -> ColumnStore | None:
        """Event times; read by whoever asks first, while others wait."""
        if self._whole is not None:
            whole, first = self._whole
            return None if whole._times is None else whole._times.part(first, first + self.n_rows)
        with self._reading_times:
            if self._time_store is None and self.has("event_time"):
                self._time_store = self._loader.times(self._rows)
            return self._time_store

    # --- whole columns, one entry per row -------------------------------------------------------------

    @property
    def item_codes(self) -> NDArray[np.int32]:
        """The item of each row: ``items[item_codes[k]]``."""
        return self._codes.read("code", 0, self.n_rows)

    @cached_property
    def item_counts(self) -> NDArray[np.int64]:
        """Rows per item; a row of weight 0 does not exist."""
        size = len(self.items)
        return self.add_up(partial(rows_per_item, size), n_keys=size).values.astype(np.int64)

    @property
    def label(self) -> NDArray[np.int8]:
        """Labels, 0 or 1."""
        return self._rows.read("label", 0, self.n_rows)

    @cached_property
    def logit(self) -> Floats:
        """The frozen backbone's logits."""
        return self._rows.read("logit", 0, self.n_rows).astype(np.float64, copy=False)

    @cached_property
    def weight(self) -> Floats:
        """Observation weights; ones when the log has none."""
        if not self.weighted:
            return np.ones(self.n_rows)
        return self._rows.read("weight", 0, self.n_rows).astype(np.float64, copy=False)

    @property
    def weighted(self) -> bool:
        """Whether the log brings weights of its own."""
        return self.has("weight")

    @cached_property
    def time(self) -> Floats | None:
        """Seconds since 1970 (UTC) or the number given as ``event_time``; None without that column."""
        return None if self._times is None else self._times.read("time", 0, self.n_rows)

    @property
    def user_codes(self) -> NDArray[np.int32] | None:
        """Users as codes in the order of appearance; None without ``user_id``."""
        return None if self._users is None else self._users[0]

    @property
    def users(self) -> pa.Array | None:
        """The users themselves; code ``k`` means ``users[k]``."""
        return None if self._users is None else self._users[1]

    @property
    def _users(self) -> tuple[NDArray[np.int32], pa.Array] | None:
        with self._reading_users:
            if self._user_store is None and self.has("user_id"):
                self._user_store = self._loader.users()
            return self._user_store

    @cached_property
    def group(self) -> pa.Array | None:
        """The ``group_id`` of each row; None without that column."""
        if not self.has("group_id"):
            return None
        pieces = [column for _, column in self._loader.pieces("group_id")]
        plain = [p.dictionary_decode() if pa.types.is_dictionary(p.type) else p for p in pieces]
        return pa.concat_arrays(plain)

    @property
    def groups(self) -> pa.Array | None:
        """The distinct groups, as text, in the order of appearance; None without ``group_id``."""
        return None if self._groups is None else self._groups[1]

    @cached_property
    def _groups(self) -> tuple[NDArray[np.int32], pa.Array] | None:
        if self.group is None:
            return None
        encoded = self.group.cast(pa.string()).dictionary_encode()
        return as_numpy(encoded.indices.fill_null(-1)), encoded.dictionary

    @cached_property
    def backbone_versions(self) -> tuple[str, ...]:
        """The distinct backbone versions, sorted; empty without that column."""
        if not self.has("backbone_version"):
            return ()
        found: set[str] = set()
        for _, column in self._loader.pieces("backbone_version"):
            found.update(str(value) for value in column.unique().to_pylist() if value is not None)
        return tuple(sorted(found))

    def as_table(self) -> pa.Table:
        """What a fit sees, as an Arrow table: items (dictionary-encoded), labels, logits, weights, times."""
        read = self._rows.read
        columns = {
            "item_id": pa.DictionaryArray.from_arrays(as_arrow(self.item_codes), self.items),
            "label": as_arrow(read("label", 0, self.n_rows)),
            "logit": as_arrow(read("logit", 0, self.n_rows)),
        }
        if self.weighted:
            columns["weight"] = as_arrow(read("weight", 0, self.n_rows))
        if self.time is not None:
            columns["event_time"] = as_arrow(self.time)
        return pa.table(columns)

    def digest(self, threads: int | None = None) -> str:
        """SHA-256 of what a fit sees: item ids, labels, logits, weights and times, in row order.

        It is the digest of a header (numbers of rows and items, the items' type, lengths and text) and of one
        digest for each 2²⁰ rows, whose columns lie one after the other; spans are digested by threads.
        """
        digest = hashlib.sha256(f"{self.n_rows} rows, {len(self.items)} items of {self.items.type}".encode())
        plain = self.items.cast(pa.string())
        digest.update(np.diff(np.frombuffer(plain.buffers()[1], np.int32, len(plain) + 1)).tobytes())
        digest.update(plain.buffers()[2] or b"")
        columns = TIME if self.has("event_time") else NO_COLUMNS

        def of_span(first: int, last: int) -> bytes:
            rows, span = self.rows(first, last, columns), hashlib.sha256()
            span.update(np.ascontiguousarray(rows.codes).data)
            span.update(np.ascontiguousarray(rows.label).data)
            for values in (rows.logit, rows.weight, rows.time):
                if values is not None:
                    span.update(np.ascontiguousarray(values, np.float64).data)
            return span.digest()

        workers = threads or len(os.sched_getaffinity(0))
        for span in in_spans(of_span, self.n_rows, workers, _DIGEST_ROWS):
            digest.update(span)
        return digest.hexdigest()
