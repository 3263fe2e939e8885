"""A log whose rows lie on a cluster.

The driver knows the files' schema, their row groups, the distinct items and the distinct users; it never
sees the rows, only sums over them (and, for a link's starting point, the same small sample as locally).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pyarrow as pa

from slc_ops.correction.prior_variance import HoldOut
from slc_ops.engines.spark.cluster import Task, add_up, as_text, collected, mapped, raise_first
from slc_ops.engines.spark.session import master_url, open_session
from slc_ops.engines.spark.splits import Dictionaries, SplitRows, parquet, plan_splits, read_split
from slc_ops.errors import InputError, SlcError
from slc_ops.logs.buffers import as_arrow, as_numpy
from slc_ops.logs.interactions import InteractionLog, Kernel, Rows, check_columns
from slc_ops.logs.passes import Partial
from slc_ops.logs.reading import files_of, open_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLACE = 32  # bits of an identifier's place within its split


class SparkEngine:
    """Logs on one cluster; the application ends with this process, or with :meth:`close`."""

    def __init__(self, master: str | None = None) -> None:
        self.master = master_url(master)
        self.session = open_session(self.master)

    def read(self, paths: Path | Sequence[Path]) -> "SparkLog":
        """The windows' rows, which every executor must see at these paths."""
        given = [paths] if isinstance(paths, str | Path) else list(paths)
        return SparkLog(self.session, [file for path in given for file in files_of(Path(path))])

    def close(self) -> None:
        """End the application."""
        self.session.stop()


class SparkLog:
    """Validated rows of the log's contract on a cluster; a :class:`~slc_ops.logs.interactions.Log`."""

    def __init__(self, session: "SparkSession", files: Sequence[Path]) -> None:
        self._session, self._source = session, open_source(files, {})
        check_columns(self._source, {})
        self._sources = [parquet(file.absolute()) for file in files]
        self.n_rows: int = self._source.n_rows
        self.splits = plan_splits(self._sources)
        self._key = uuid4().hex
        self._shared = session.sparkContext.broadcast(self.splits)
        count = len(self.splits)
        self.frame: DataFrame = session.range(0, count, 1, count).withColumnRenamed("id", "place").persist()
        self.items: pa.Array = self._distinct("item_id", _own_items)

    def has(self, column: str) -> bool:
        """Whether the files have this column of the contract."""
        return column in self._source.types

    def describe(self) -> str:
        """Where the rows come from."""
        return self._source.describe()

    @property
    def weighted(self) -> bool:
        """Whether the log brings weights of its own."""
        return self.has("weight")

    @cached_property
    def users(self) -> pa.Array | None:
        """The distinct users in the order of appearance; None without ``user_id``."""
        return self._distinct("user_id", _own_users) if self.has("user_id") else None

    @cached_property
    def backbone_versions(self) -> tuple[str, ...]:
        """The distinct backbone versions, sorted; empty without that column."""
        if not self.has("backbone_version"):
            return ()
        found: Distinct = self.over_splits(_versions)
        return tuple(sorted(found.values))

    def add_up(
        self,
        kernel: Kernel[Partial],
        *,
        threads: int = 1,
        time: bool = False,
        user: bool = False,
        n_keys: int = 1,
        span_rows: int | None = None,
    ) -> Partial:
        """The kernel's sums over all rows (see :class:`~slc_ops.logs.interactions.RowSource`)."""
        self._require(time)
        work = partial(_sums, kernel, time, user, n_keys, span_rows)
        result: Partial = self.over_splits(work, n_keys=n_keys, users=user)
        return result

    def sample(self, firsts: Sequence[int], length: int, *, time: bool = False) -> list[Rows]:
        """``length`` rows from each of the given places on."""
        self._require(time)
        wanted = [(first, first + length) for first in firsts]
        picked: Picked = self.over_splits(partial(_picked, wanted, time))
        return [picked.rows(first, last) for first, last in wanted]

    def hold_out(self) -> HoldOut | None:
        """The rows that play the past and the future of ``slc_eb``."""
        from slc_ops.engines.spark.holdout import hold_out

        return hold_out(self)

    def over_splits(
        self,
        work: Any,
        *,
        n_keys: int = 1,
        users: bool = False,
        frame: "DataFrame | None" = None,
    ) -> Any:
        """The sum of a function's answers over all splits; ``frame`` brings one more argument for each."""
        task = Task(self._shared, self.dictionaries(users), work)
        return add_up(self._session, self.frame if frame is None else frame, task, len(self.splits), n_keys)

    def task(self, work: Any, *, users: bool = False) -> Task:
        """A task whose answers go elsewhere than to the driver."""
        return Task(self._shared, self.dictionaries(users), work)

    def collected(self, frame: "DataFrame") -> pa.Table:
        """Run a job."""
        return collected(self._session, frame)

    def dictionaries(self, users: bool) -> Dictionaries:
        """What workers translate their codes with; the users only where they are asked for."""
        return Dictionaries(self._key, self._item_values, self._user_values if users else None)

    @cached_property
    def _item_values(self) -> Any:
        return self._session.sparkContext.broadcast(self.items)

    @cached_property
    def _user_values(self) -> Any:
        return self._session.sparkContext.broadcast(self.users)

    def _require(self, time: bool) -> None:
        if time and not self.has("event_time"):
            raise InputError(f"{self.describe()} has no column event_time, which this method needs")

    def _distinct(self, column: str, own: "Callable[[InteractionLog], pa.Array]") -> pa.Array:
        """Distinct identifiers in the order of appearance: each split's own, then Spark's aggregation."""
        kinds = {_id_type(source.types[column]) for source in self._sources}
        if len(kinds) > 1:
            raise InputError(
                "identifiers are integers in one part of the input and text in another; write them in one way"
            )
        kind = kinds.pop()
        schema = f"id {'long' if kind == pa.int64() else 'string'}, place long, error string"
        rows = mapped(self.frame, Identifiers(self._shared, own, kind), schema)
        found = self.collected(rows.groupBy("error", "id").agg({"place": "min"}))
        raise_first(found["error"])
        order = np.argsort(as_numpy(found["min(place)"]), kind="stable")
        return found["id"].combine_chunks().cast(kind).take(as_arrow(order))


@dataclass(frozen=True)
class Identifiers:
    """A task: the distinct identifiers of each split and where they first appear."""

    splits: Any
    own: "Callable[[InteractionLog], pa.Array]"
    kind: pa.DataType

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One batch per split."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                values, error = pa.nulls(1, self.kind), None
                try:
                    values = self.own(read_split(self.splits.value[number]))
                except SlcError as found:
                    error = as_text(found)
                place = (number << _PLACE) + np.arange(len(values), dtype=np.int64)
                columns = [values, as_arrow(place), pa.array([error] * len(values), pa.string())]
                yield pa.record_batch(columns, names=["id", "place", "error"])


@dataclass
class Distinct:
    """Some distinct words."""

    values: set[str]

    def add(self, other: "Distinct") -> None:
        """Take up further ones."""
        self.values |= other.values


@dataclass
class Picked:
    """Rows by the number of the first of them."""

    pieces: list[tuple[int, Rows]]

    def add(self, other: "Picked") -> None:
        """Take up further ones."""
        self.pieces += other.pieces

    def rows(self, first: int, last: int) -> Rows:
        """Consecutive rows, which may come from two splits."""
        found = [rows for begin, rows in self.pieces if first <= begin < last]
        return found[0] if len(found) == 1 else _joined(found)


def _joined(parts: list[Rows]) -> Rows:
    columns: dict[str, Any] = {}
    for field in fields(Rows):
        values = [getattr(part, field.name) for part in parts]
        columns[field.name] = None if values[0] is None else np.concatenate(values)
    return Rows(**columns)


def _sums(
    kernel: Kernel[Partial], time: bool, user: bool, n_keys: int, span_rows: int | None, rows: SplitRows
) -> Partial:
    return rows.add_up(kernel, time=time, user=user, n_keys=n_keys, span_rows=span_rows)


def _picked(wanted: list[tuple[int, int]], time: bool, rows: SplitRows) -> Picked:
    begin, end = rows.split.first, rows.split.first + rows.n_rows
    inside = [(max(first, begin), min(last, end)) for first, last in wanted if first < end and begin < last]
    return Picked([(a, rows.rows(a - begin, b - begin, time=time)) for a, b in inside])


def _versions(rows: SplitRows) -> Distinct:
    return Distinct(set(rows.log.backbone_versions))


def _own_items(log: InteractionLog) -> pa.Array:
    return log.items


def _own_users(log: InteractionLog) -> pa.Array:
    return log.users


def _id_type(kind: pa.DataType) -> pa.DataType:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.int64() if pa.types.is_integer(kind) else pa.string()
