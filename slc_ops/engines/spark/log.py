"""A log with its rows on a cluster.

The driver holds the files' schema, their row groups, the distinct items and the distinct users. It never
receives the rows, only sums over them (and the same bounded samples as locally: one for a link's starting
point, one for the prior of ``slc_eb``).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack
from uuid import uuid4

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slc_ops.base.buffers import as_arrow, as_numpy
from slc_ops.base.errors import InputError, SlcError
from slc_ops.engines.spark.answers import (
    Found,
    Numbered,
    consecutive,
    picked,
    rows_after,
    sums,
    table,
    versions,
)
from slc_ops.engines.spark.cluster import Task, add_up, as_text, collected, mapped, raise_first
from slc_ops.engines.spark.splits import Dictionaries, Split, parquet, plan_splits, read_split
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.loading import check_columns
from slc_ops.rows.passes import Partial, Pieces
from slc_ops.rows.reading import open_source
from slc_ops.rows.rows import NO_COLUMNS, NO_LATER_ROW, Columns, Kernel, Needs, Rows, rows_per_item

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

IN_MEMORY_ROWS = 1 << 19
MOST_SAMPLES = 3
_POSITION = 32  # bits of an id's position within its split


class SparkLog:
    """Validated rows of the log's contract on a cluster; implements :class:`~slc_ops.rows.rows.Log`."""

    item_sums: Any
    """Stored item sums of the log, if :mod:`slc_ops.methods.fitting.window_sums` has set them."""

    def __init__(
        self,
        session: "SparkSession",
        files: Sequence[Path],
        splits: Sequence[Split] | None = None,
        items: pa.Array | None = None,
    ) -> None:
        self._session, self._files, self._source = session, files, open_source(files, {})
        check_columns(self._source, {})
        self._sources = [parquet(file.absolute()) for file in files]
        self.splits = list(splits) if splits is not None else plan_splits(self._sources)
        self.n_rows = sum(split.rows for split in self.splits)
        self._key = uuid4().hex
        self._shared = session.sparkContext.broadcast(self.splits)
        self.frame = frame_of(session, self.splits).persist()
        self._samples: dict[tuple[Any, ...], list[Rows]] = {}
        self._shared_ids: dict[str, Any] = {}
        self.items: pa.Array = self._distinct("item_id", "items") if items is None else items

    def release(self) -> None:
        """Drop the executors' caches of this log; it can still be used."""
        self.frame.unpersist()
        vars(self).pop("_brought", None)
        self._samples.clear()
        for shared in self._shared_ids.values():
            shared.unpersist()

    def has(self, column: str) -> bool:
        """Return True when the files have this column of the contract."""
        return column in self._source.types

    def describe(self) -> str:
        """Return the origin of the rows, for messages."""
        return self._source.describe()

    @property
    def weighted(self) -> bool:
        """Return True when the log has a column of weights."""
        return self.has("weight")

    @cached_property
    def item_counts(self) -> NDArray[np.int64]:
        """Return the number of rows per item, without rows of weight 0."""
        size = len(self.items)
        found = self.add_up(partial(rows_per_item, size), n_keys=size)
        return found.values.astype(np.int64)

    @cached_property
    def users(self) -> pa.Array | None:
        """Return the distinct users in order of appearance; None without ``user_id``."""
        return self._distinct("user_id", "users") if self.has("user_id") else None

    @cached_property
    def groups(self) -> pa.Array | None:
        """Return the distinct groups, as text, in order of appearance; None without ``group_id``."""
        return self._distinct("group_id", "groups", pa.string()) if self.has("group_id") else None

    @cached_property
    def backbone_versions(self) -> tuple[str, ...]:
        """Return the distinct backbone versions, sorted; empty without that column."""
        if not self.has("backbone_version"):
            return ()
        found: Found = self.over_splits(versions)
        return tuple(sorted(found.values))

    def add_up(self, kernel: Kernel[Partial], *, threads: int = 1, **needs: Unpack[Needs]) -> Partial:
        """Return the kernel's sums over all rows (see :class:`~slc_ops.rows.rows.RowSource`)."""
        columns = needs.get("columns", NO_COLUMNS)
        self._require(columns)
        result: Partial = self.over_splits(
            partial(sums, kernel, needs), n_keys=needs.get("n_keys", 1), columns=columns
        )
        return result

    def in_memory(self) -> InteractionLog | None:
        """Return the rows, read and validated by the workers, of a small log; None for a large one."""
        return self._brought if self.n_rows <= IN_MEMORY_ROWS else None

    @cached_property
    def _brought(self) -> InteractionLog:
        found: Pieces[pa.Table] = self.over_splits(table)
        return InteractionLog.from_table(pa.concat_tables(found.all))

    def sample(self, firsts: Sequence[int], length: int, columns: Columns = NO_COLUMNS) -> list[Rows]:
        """Return ``length`` rows from each of the given row numbers on."""
        self._require(columns)
        # Every link and every score starts with the same sample: it is fetched once.
        key = (*firsts, length, frozenset(columns))
        if key not in self._samples:
            if len(self._samples) == MOST_SAMPLES:
                self._samples.pop(next(iter(self._samples)))
            wanted = [(first, first + length) for first in firsts]
            found: Pieces[Numbered] = self.over_splits(partial(picked, wanted, columns))
            self._samples[key] = [consecutive(found.all, first, last) for first, last in wanted]
        return self._samples[key]

    def cut(self, timestamp: float) -> tuple["SparkLog", "SparkLog"]:
        """Return the rows up to and including a timestamp, and the rows after it; raise if none is later."""
        later: Found = self.over_splits(partial(rows_after, timestamp))
        if not any(later.values.values()):
            raise InputError(NO_LATER_ROW.format(self.describe()))
        sides = [[(each, each.rows - later.values[each.number]) for each in self.splits]]
        sides += [[(each, later.values[each.number]) for each in self.splits]]
        before, after = (_renumbered(side) for side in sides)
        return (
            SparkLog(self._session, self._files, [replace(split, until=timestamp) for split in before]),
            SparkLog(self._session, self._files, [replace(split, after=timestamp) for split in after]),
        )

    def over_splits(self, work: Any, *, n_keys: int = 1, columns: Columns = NO_COLUMNS) -> Any:
        """Return the sum of a function's answers over all splits."""
        task = Task(self._shared, self._dictionaries(columns), work)
        return add_up(self._session, self.frame, task, len(self.splits), n_keys)

    def _dictionaries(self, columns: Columns) -> Dictionaries:
        """Return the ids for the workers' translation of codes; users and groups only on request."""
        wanted = {"items": True, "users": "user" in columns, "groups": "group" in columns}
        for name, asked in wanted.items():
            if asked and name not in self._shared_ids and (ids := getattr(self, name)) is not None:
                self._shared_ids[name] = self._session.sparkContext.broadcast(ids)
        return Dictionaries(self._key, {name: self._shared_ids.get(name) for name in wanted if wanted[name]})

    def _require(self, columns: Columns) -> None:
        if "time" in columns and not self.has("event_time"):
            raise InputError(f"{self.describe()} has no column event_time, which this method needs")

    def _distinct(self, column: str, own: str, kind: pa.DataType | None = None) -> pa.Array:
        """Return distinct ids in order of appearance: first per split, then by Spark's aggregation."""
        kinds = {kind or _id_type(source.types[column]) for source in self._sources}
        kind = kinds.pop() if len(kinds) == 1 else pa.string()  # an integer and its text are one id
        schema = f"id {'long' if kind == pa.int64() else 'string'}, position long, error string"
        rows = mapped(self.frame, Identifiers(self._shared, own, kind), schema)
        found = collected(self._session, rows.groupBy("error", "id").agg({"position": "min"}))
        raise_first(found["error"])
        order = np.argsort(as_numpy(found["min(position)"]), kind="stable")
        return found["id"].combine_chunks().cast(kind).take(as_arrow(order))


@dataclass(frozen=True)
class Identifiers:
    """A task: the distinct ids of each split and their first positions."""

    splits: Any
    own: str  # the log's property with the ids
    kind: pa.DataType

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield one batch per split."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                values, error = pa.nulls(1, self.kind), None
                try:
                    values = getattr(read_split(self.splits.value[number]), self.own).cast(self.kind)
                except SlcError as found:
                    error = as_text(found)
                position = (number << _POSITION) + np.arange(len(values), dtype=np.int64)
                columns = [values, as_arrow(position), pa.array([error] * len(values), pa.string())]
                yield pa.record_batch(columns, names=["id", "position", "error"])


def frame_of(session: "SparkSession", splits: Sequence[Any]) -> "DataFrame":
    """Return a frame with one row per split (or other unit of work), each in its own partition."""
    return session.range(0, len(splits), 1, len(splits)).withColumnRenamed("id", "number")


def _renumbered(side: list[tuple[Split, int]]) -> list[Split]:
    splits: list[Split] = []
    first = 0
    for split, rows in side:
        if rows:
            splits.append(replace(split, number=len(splits), first=first, rows=rows))
            first += rows
    return splits


def _id_type(kind: pa.DataType) -> pa.DataType:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.int64() if pa.types.is_integer(kind) else pa.string()
