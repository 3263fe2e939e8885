"""Pass the rows of a log to an observer on the executors, and group rows with equal keys.

Most counts of an observer add up, part by part. Others do not (an id that occurs twice, perhaps in two
parts): for these the observer emits keyed rows, Spark moves rows with equal keys to one place, and the
observer processes them there. Keys are distributed over buckets of about a million rows, which limits the
memory of a worker.
"""

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.base.additive import Additive
from slc_ops.base.code_version import code_version
from slc_ops.base.errors import SlcError
from slc_ops.engines.spark.cluster import ANSWER as ANSWERS
from slc_ops.engines.spark.cluster import (
    MOST_PARTS,
    added,
    answer_of,
    as_text,
    check_code,
    collected,
    mapped,
    quiet,
    raise_first,
)
from slc_ops.engines.spark.log import frame_of
from slc_ops.engines.spark.splits import Split
from slc_ops.intake.writing import SPAN
from slc_ops.rows.passes import Addable
from slc_ops.rows.reading import ParquetSource
from slc_ops.rows.stored import hashes_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ANSWER = 0  # the kind of a part's sums; the observer defines the kinds of keyed rows, from 1 on
BUCKET_ROWS = 1 << 20
MOST_SPREAD = 10_000  # partitions of a shuffle
_FIELDS = (
    ("kind", "int", pa.int32()),
    ("bucket", "long", pa.int64()),
    ("position", "long", pa.int64()),
    ("hash", "long", pa.int64()),
    ("id", "binary", pa.binary()),
    ("failing", "boolean", pa.bool_()),
    ("value", "double", pa.float64()),
    ("payload", "binary", pa.binary()),
    ("error", "string", pa.string()),
)
_KEYED = ", ".join(f"{name} {kind}" for name, kind, _ in _FIELDS)
_ARROW = pa.schema([(name, kind) for name, _, kind in _FIELDS])
_GATHERED = "kind int, number long, payload binary, error string"
_ANSWERED = pa.schema(
    [("kind", pa.int32()), ("number", pa.int64()), ("payload", pa.binary()), ("error", pa.string())]
)
ROW_BITS = 32  # a position is (number of the part << ROW_BITS) + row in the part


@dataclass(frozen=True)
class Keyed:
    """Rows to be grouped by their hash; ``ids`` (bytes) where hashes alone are not sufficient."""

    kind: int
    position: np.ndarray
    hashes: np.ndarray
    ids: pa.Array | None = None
    failing: np.ndarray | None = None
    value: pa.Array | None = None

    def batch(self, buckets: int) -> pa.RecordBatch:
        """Return the rows as a batch of a task."""
        count = len(self.position)
        columns = {
            "kind": pa.repeat(pa.scalar(self.kind, pa.int32()), count),
            "bucket": pa.array((self.hashes % np.uint64(buckets)).astype(np.int64)),
            "position": pa.array(self.position),
            "hash": pa.array(self.hashes.view(np.int64)),
            "failing": None if self.failing is None else pa.array(self.failing),
            "id": self.ids,
            "value": self.value,
        }
        given = [(columns.get(name), kind) for name, _, kind in _FIELDS]
        arrays = [pa.nulls(count, kind) if values is None else values for values, kind in given]
        return pa.record_batch(arrays, schema=_ARROW)


class HandsOn:
    """A buffer of keyed rows to emit."""

    def __init__(self) -> None:
        self._waiting: list[Keyed] = []

    def keyed(self) -> Iterator[Keyed]:
        """Yield the keyed rows since the last call."""
        waiting, self._waiting = self._waiting, []
        yield from waiting

    def sums(self) -> Addable | None:
        """Return the sums of the part, at its end; None if only keyed rows count."""
        return None


class PartObserver(Protocol):
    """Receives the rows of one part."""

    @property
    def hashed(self) -> Sequence[str]:
        """Return the columns whose hashes it needs."""

    def add(self, batch: pa.RecordBatch, hashes: Mapping[str, np.ndarray]) -> None:
        """Receive the next rows and the hashes of their columns."""

    def keyed(self) -> Iterator[Keyed]:
        """Yield the keyed rows since the last call."""

    def sums(self) -> Addable | None:
        """Return the sums of the part, at its end; None if only keyed rows count."""


class Partwise(Protocol):
    """Observes the rows of a log part by part; it is sent to the executors."""

    def part(self, number: int) -> PartObserver:
        """Return the observer of a part."""

    def together(self, kind: int, rows: pa.Table) -> Addable:
        """Return the result for rows (position, hash, id, …), which include all rows of each hash."""


@dataclass
class Both(Additive):
    """Two values that add up; either may be missing."""

    one: Any
    other: Any


ObserverOf = Callable[[int], PartObserver]
"""Returns the observer of a part, by its number."""
Showing = Callable[[Any, PartObserver | None], Iterator[Addable | None]]
"""Passes the rows of a part to its observer: yields after each step, and yields its answer last."""


@dataclass(frozen=True)
class Watched:
    """A task: pass parts to their observers, emit keyed rows, and answer with the sums of each part."""

    parts: Any
    show: Showing
    observer_of: ObserverOf | None
    buckets: int
    fan: int = MOST_PARTS
    code: str = field(default_factory=code_version)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process all parts of a partition."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from self._one(number)

    def _one(self, number: int) -> Iterator[pa.RecordBatch]:
        payload = error = last = None
        try:
            check_code(self.code)
            watching = None if self.observer_of is None else self.observer_of(number)
            for answer in self.show(self.parts.value[number], watching):
                last = answer
                if watching is not None:
                    for keyed in watching.keyed():
                        yield keyed.batch(self.buckets)
            sums = None if watching is None else watching.sums()
            payload = pickle.dumps(Both(sums, last), protocol=5)
        except SlcError as problem:
            error = as_text(problem)
        given: dict[str, Any] = {"kind": ANSWER, "bucket": number // self.fan, "position": number}
        given |= {"payload": payload, "error": error}
        yield pa.record_batch([[given.get(name)] for name in _ARROW.names], schema=_ARROW)


def said_together(partwise: Partwise | None, key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
    """Return one answer for the rows of one kind and bucket."""
    kind, bucket = (each.as_py() for each in key)
    payload = error = None
    try:
        if kind == ANSWER:
            found = added(rows.rename_columns({"position": "number"}))
        else:
            assert partwise is not None  # noqa: S101 - no other source of keyed rows
            found = partwise.together(kind, rows)
        payload = pickle.dumps(found, protocol=5)
    except SlcError as problem:
        error = as_text(problem)
    given = {"kind": kind, "number": bucket, "payload": payload, "error": error}
    return pa.table([[value] for value in given.values()], schema=_ANSWERED)


def keyed_rows(
    session: "SparkSession", parts: Sequence[Any], show: Showing, observer_of: ObserverOf | None, rows: int
) -> "DataFrame":
    """Return the parts' keyed rows and answers, those of one kind and bucket in one partition."""
    buckets = max(1, rows // BUCKET_ROWS)
    task = Watched(session.sparkContext.broadcast(list(parts)), show, observer_of, buckets)
    spread = min(buckets, MOST_SPREAD)
    return mapped(frame_of(session, parts), task, _KEYED).repartition(spread, "kind", "bucket")


def gathered(
    session: "SparkSession", parts: Sequence[Any], show: Showing, partwise: Partwise | None, rows: int
) -> dict[int, Any]:
    """Map each kind to the sum of its keyed rows; :data:`ANSWER` to that of the answers (:class:`Both`)."""
    frame = keyed_rows(session, parts, show, None if partwise is None else partwise.part, rows)

    def together(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        return said_together(partwise, key, rows)

    with quiet():
        answers = frame.groupBy("kind", "bucket").applyInArrow(together, _GATHERED)
    found = collected(session, answers)
    raise_first(found["error"])
    kinds = sorted(set(found["kind"].to_pylist()))
    return {kind: added(found.filter(pc.equal(found["kind"], kind)).drop(["kind"])) for kind in kinds}


def show_stored(split: Split, observer: PartObserver | None) -> Iterator[None]:
    """Pass the rows of a stored log to an observer, in the spans of extraction."""
    assert observer is not None  # noqa: S101 - stored rows need an observer
    for batch in stored_batches(split):
        observer.add(batch, hashes_for(observer, batch))
        yield


def stored_batches(split: Split, columns: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split as written, with the existing ones of these columns, or with all."""
    source = ParquetSource(Path(split.path), groups=split.groups)
    names = [name for name in columns or source.types if name in source.types]
    for batch in source.batches(names, as_written=True) if names else ():
        yield from (batch.slice(first, SPAN) for first in range(0, batch.num_rows, SPAN))


def each_group(
    session: "SparkSession", frame: "DataFrame", work: Callable[[int, pa.Table], Any], groups: int
) -> Any:
    """Return the sum of ``work`` over the groups of rows with the same ``number``."""

    def answered(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        number = key[0].as_py()
        return pa.Table.from_batches([answer_of(number, partial(work, number, rows))])

    spread = frame.repartition(min(groups, MOST_SPREAD), "number")
    with quiet():
        return added(collected(session, spread.groupBy("number").applyInArrow(answered, ANSWERS)))
