"""The hold-out of ``slc_eb`` on a cluster: each user's last fifth, by the local engine's own function.

A user's rows may lie in many splits. Each split sends its rows' users, times and weights to buckets of users;
a bucket finds the held-out rows (:func:`slc_ops.correction.prior_variance.position`) and sends their places
back to their splits, where they lie from then on: one row per split of a cached frame. The driver sees sums.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slc_ops.correction.prior_variance import HELD_OUT, LEAST_HELD_OUT, HoldOut, Part, position
from slc_ops.correction.timebins import moment_reached
from slc_ops.engines.spark.cluster import Task, mapped, quiet
from slc_ops.engines.spark.splits import Dictionaries, SplitRows, kept, open_split
from slc_ops.logs.passes import Partial, Totals
from slc_ops.logs.rows import Kernel, Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from slc_ops.engines.spark.log import SparkLog

BUCKET_ROWS = 1 << 22
_SENT = "bucket long, place long, row binary, user binary, time binary, weight binary"


def hold_out(log: "SparkLog") -> HoldOut | None:
    """The two parts of a log, or None when time tells none of its rows apart."""
    if not log.has("event_time"):
        return None
    users = log.users is not None
    rows, weight = log.add_up(_weights, time=True, user=users).values
    for cut in ([Cut(uuid4().hex, _each_users_last(log))] if users else []) + [_the_last(log, weight)]:
        held: Totals | None = _Part(log, cut, True, 0).add_up(_weights)
        if held is not None and held.values[1] >= LEAST_HELD_OUT * weight:
            n_held = int(held.values[0])
            parts = _Part(log, cut, False, int(rows) - n_held), _Part(log, cut, True, n_held)
            return HoldOut(*parts, len(log.items if log.users is None else log.users))
    return None


@dataclass(frozen=True)
class Cut:
    """Which rows are held out: marked in a frame, or all from a moment on."""

    key: str
    frame: "DataFrame | None" = None
    since: float | None = None


@dataclass(frozen=True)
class _Part:
    """One side of a cut, as a source of rows."""

    log: "SparkLog"
    cut: Cut
    future: bool
    n_rows: int

    def add_up(
        self,
        kernel: Kernel[Partial],
        *,
        threads: int = 1,
        time: bool = False,
        user: bool = False,
        group: bool = False,
        n_keys: int = 1,
        span_rows: int | None = None,
    ) -> Partial:
        """The kernel's sums over these rows."""
        users = self.log.users is not None
        work = partial(
            _part_sums, self.cut.key, self.cut.since, self.future, users, kernel, n_keys, span_rows
        )
        result: Partial = self.log.over_splits(work, n_keys=n_keys, users=users, frame=self.cut.frame)
        return result


def _part_sums(
    key: str,
    since: float | None,
    future: bool,
    users: bool,
    kernel: Kernel[Partial],
    n_keys: int,
    span_rows: int | None,
    rows: SplitRows,
    held: bytes | None = None,
) -> Partial | None:
    def chosen() -> Part:
        every = rows.rows(0, rows.n_rows, time=since is not None, user=users)
        if held is not None:
            mask = np.unpackbits(np.frombuffer(held, np.uint8), count=len(every)).astype(np.bool_)
        else:
            assert every.time is not None and since is not None  # noqa: PT018, S101 - asked for
            mask = every.time >= since
        who = every.codes if every.user is None else every.user
        return Part(replace(every, time=None, user=who).chosen(mask if future else ~mask))

    part: Part = kept(key, f"{rows.split.number} {future}", chosen)
    return part.add_up(kernel, n_keys=n_keys, span_rows=span_rows) if part.n_rows else None


def _weights(rows: Rows) -> Totals:
    """Rows and Σw."""
    return Totals(np.array([len(rows), len(rows) if rows.weight is None else float(np.sum(rows.weight))]))


def _the_last(log: "SparkLog", weight: float) -> Cut:
    """The last fifth of time, for users who come once."""
    edge = moment_reached(partial(log.add_up, time=True), round(5 * (1.0 - HELD_OUT)), 5)
    in_it = edge.before + edge.at / 2 >= (1.0 - HELD_OUT) * weight
    return Cut(uuid4().hex, since=edge.moment if in_it else float(np.nextafter(edge.moment, np.inf)))


def _each_users_last(log: "SparkLog") -> "DataFrame":
    """One row per split: its place, and a bit per row that says whether the row is held out."""
    buckets = -(-log.n_rows // BUCKET_ROWS)
    sent = mapped(log.frame, Send(log.task(None, users=True), buckets), _SENT)
    with quiet():
        found = sent.groupBy("bucket").applyInArrow(_held_of_bucket, "place long, row binary")
        marked = found.groupBy("place").applyInArrow(_marks, "place long, held binary")
    return marked.repartitionByRange(len(log.splits), "place").persist()


@dataclass(frozen=True)
class Send:
    """A task: the rows of each split, by bucket of users; rows count from 0 in their split."""

    task: Task
    buckets: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A batch per split, a row per bucket."""
        dictionaries = self.task.dictionaries
        assert isinstance(dictionaries, Dictionaries)  # noqa: S101 - made with them
        for batch in batches:
            for number in batch.column(0).to_pylist():
                split = open_split(self.task.splits.value[number], dictionaries)
                yield pa.RecordBatch.from_pylist(self._rows_of(split), schema=_ARROW)

    def _rows_of(self, split: SplitRows) -> list[dict[str, Any]]:
        rows = split.rows(0, split.n_rows, time=True, user=True)
        assert rows.user is not None and rows.time is not None  # noqa: PT018, S101 - asked for
        bucket = rows.user % self.buckets
        order = np.argsort(bucket, kind="stable")
        ends = np.cumsum(np.bincount(bucket, minlength=self.buckets))
        sent = []
        for number, places in enumerate(np.split(order, ends[:-1])):
            weight = None if rows.weight is None else rows.weight[places].astype(np.float64).tobytes()
            # The number of the split's rows travels along, so that it is known how many marks it needs.
            row = np.append(places, len(rows)).astype(np.int32)
            sent.append({
                "bucket": number, "place": split.split.number, "row": row.tobytes(),
                "user": rows.user[places].tobytes(), "time": rows.time[places].tobytes(), "weight": weight,
            })  # fmt: skip
        return sent


_ARROW = pa.schema(
    [("bucket", pa.int64()), ("place", pa.int64())]
    + [(name, pa.binary()) for name in ("row", "user", "time", "weight")]
)


def _held_of_bucket(sent: pa.Table) -> pa.Table:
    """The held-out rows of some users, by split."""
    parts = sent.sort_by("place").to_pylist()
    places = [np.frombuffer(part["row"], np.int32) for part in parts]
    user = _together(parts, "user", np.int32)
    time = _together(parts, "time", np.float64)
    weight = None if parts[0]["weight"] is None else _together(parts, "weight", np.float64)
    held = position(user, time, weight) >= 1.0 - HELD_OUT if len(user) else np.zeros(0, np.bool_)
    found, first = [], 0
    for part, place in zip(parts, places, strict=True):
        own = held[first : first + len(place) - 1]
        first += len(own)
        chosen = np.append(place[:-1][own], place[-1:])
        found.append({"place": part["place"], "row": chosen.tobytes()})
    return pa.Table.from_pylist(found, schema=pa.schema([("place", pa.int64()), ("row", pa.binary())]))


def _marks(key: tuple[pa.Scalar, ...], found: pa.Table) -> pa.Table:
    """A bit per row of one split."""
    rows = [np.frombuffer(each, np.int32) for each in found["row"].to_pylist()]
    mask = np.zeros(int(rows[0][-1]), np.bool_)
    for each in rows:
        mask[each[:-1]] = True
    bits = np.packbits(mask).tobytes()
    return pa.table({"place": pa.array([key[0].as_py()], pa.int64()), "held": pa.array([bits], pa.binary())})


def _together(parts: list[dict[str, Any]], name: str, kind: Any) -> NDArray[Any]:
    return np.concatenate([np.frombuffer(part[name], kind) for part in parts])
