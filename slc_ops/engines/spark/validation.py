"""Statistics and quarantine of a window, with the rules of the local engine, computed by executors.

Counts of parts add up. Repeated event ids, repeated rows and changed labels do not: a task gives Spark the
keys of every row, and Spark groups equal ones.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.base.additive import Additive
from slc_ops.base.code_version import code_version
from slc_ops.base.digests import digest_file
from slc_ops.base.files import replacing_directory
from slc_ops.base.hashing import column_hashes, combined_hashes, value_hashes
from slc_ops.base.parquet import SPAN, digest_parts, part_name, stored_schema
from slc_ops.base.window import Window
from slc_ops.engines.spark.cluster import (
    ANSWER,
    Task,
    add_up,
    added,
    answer_of,
    check_code,
    collected,
    mapped,
    quiet,
)
from slc_ops.engines.spark.log import frame_of
from slc_ops.engines.spark.parts import drop_unfinished
from slc_ops.engines.spark.splits import Split
from slc_ops.quality.passes import IDENTITY, MAX_EXAMPLES, Pass, merged, taken
from slc_ops.quality.rows import failures, row_checks
from slc_ops.quality.statistics import Repeats, RowStatistics
from slc_ops.rows.reading import ParquetSource, with_offsets
from slc_ops.rows.stored import Divide

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BUCKET_ROWS = 1 << 20
MOST_SPREAD = 10_000  # partitions of a shuffle
_KEYED = "number long, row long, id binary, same long, label double, failing boolean"
_ARROW = pa.schema(
    [("number", pa.int64()), ("row", pa.int64()), ("id", pa.binary()), ("same", pa.int64()),
     ("label", pa.float64()), ("failing", pa.bool_())]
)  # fmt: skip


def show(session: "SparkSession", splits: list[Split], statistics: RowStatistics) -> None:
    """Pass a stored log to the statistics, on the executors."""
    if splits:
        work = partial(counted, statistics.window, statistics.logit_limit)
        task = Task(session.sparkContext.broadcast(splits), None, work)
        take(session, splits, add_up(session, frame_of(session, splits), task, len(splits), 1), statistics)


def counted(window: Window, logit_limit: float, split: Split) -> "Counts":
    """Return the counts of one part of a stored log, in the spans of extraction."""
    counts = Counts(window, logit_limit)
    for batch in stored_batches(split):
        counts.add(batch, column_hashes(batch))
    return counts


def take(session: "SparkSession", splits: list[Split], counts: "Counts", statistics: RowStatistics) -> None:
    """Add the counts of a stored log, and its repetitions, to the statistics."""
    ids, rows, failed, examples = 0, 0, counts.failed_rows, []
    if splits:
        again = keyed(session, splits).selectExpr(
            "count(id) - count(distinct id) as ids", "count(same) - count(distinct same) as rows"
        )
        ids, rows = collected(session, again).to_pylist()[0].values()
    if ids:
        failing = partial(failing_rows, statistics.window, statistics.logit_limit)
        later = later_ids(keyed(session, splits, failing), splits)
        failed += collected(session, later.selectExpr("count_if(not failing)")).column(0)[0].as_py()
        first = collected(session, later.orderBy("number", "row").limit(MAX_EXAMPLES)).to_pylist()
        examples = [{"row": splits[each["number"]].first + each["row"]} for each in first]
    statistics.take(counts.run, Repeats(ids, failed, rows, examples))


class PartPass(Pass):
    """A pass over consecutive parts that can be serialised and added."""

    def merge(self, other: Pass) -> None:
        """Add the pass over the rows that follow."""
        for code, count in other.failed.items():
            self.failed[code] += count
        for code, found in other.examples.items():
            examples = self.examples.setdefault(code, [])
            numbered = [{**each, "row": each["row"] + self.rows} for each in found]
            examples += numbered[: MAX_EXAMPLES - len(examples)]
        self.hours += other.hours
        self.labels += other.labels
        self.logits += other.logits
        self.readings += other.readings
        self.misfit += other.misfit
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        for name, count in other.versions.items():
            self._count_version(name, count)
        self._items = [merged([*self._items, *other._items])] if other._items else self._items
        self.rows += other.rows

    def __getstate__(self) -> dict[str, Any]:
        """Serialise the counts without the checks."""
        return {name: value for name, value in vars(self).items() if name != "checks"}


class Counts(Additive):
    """The counts of consecutive parts: receives the rows of one, and adds up."""

    def __init__(self, window: Window, logit_limit: float) -> None:
        self.run = PartPass(window, logit_limit)
        self.failed_rows = 0

    def add(self, batch: pa.RecordBatch, hashes: Mapping[str, np.ndarray]) -> None:
        """Add rows; their hashes are released, because Spark finds what repeats."""
        self.run.add(batch, hashes)
        self.failed_rows += len(np.unique(taken(self.run.bad_rows, np.int64)))
        self.run.id_hashes.clear()
        self.run.row_hashes.clear()


def failing_rows(window: Window, logit_limit: float, batch: pa.RecordBatch) -> pa.Array:
    """Mark the rows that fail a check."""
    checks = row_checks(window.start, window.end, logit_limit)
    nothing = np.zeros(batch.num_rows, bool)
    return pa.array(np.logical_or.reduce([nothing, *failures(batch, checks).values()]))


Failing = Callable[[pa.RecordBatch], pa.Array]


@dataclass(frozen=True)
class Keys:
    """A task: part and row of every row, its event id, a hash of (user, item, time, label), and its label.

    With ``failing`` it marks the rows that fail a check.
    """

    splits: Any
    failing: Failing | None
    code: str = field(default_factory=code_version)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the keys of all parts of a partition."""
        check_code(self.code)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                columns = () if self.failing else ("event_id", *IDENTITY)
                for first, rows in with_offsets(stored_batches(self.splits.value[number], columns)):
                    yield self._keys(number, first, rows)

    def _keys(self, number: int, first: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        count, names = rows.num_rows, rows.schema.names
        found: dict[str, pa.Array] = {
            "number": pa.repeat(pa.scalar(number, pa.int64()), count),
            "row": pa.array(np.arange(first, first + count, dtype=np.int64)),
        }
        if "event_id" in names:
            found["id"] = as_bytes(rows.column("event_id"))
        if set(IDENTITY) <= set(names):
            same = combined_hashes(*(value_hashes(rows.column(name)) for name in IDENTITY))
            found["same"] = pa.array(same.view(np.int64))
        if "label" in names and rows.schema.field("label").type in (pa.int64(), pa.float64()):
            found["label"] = pc.cast(rows.column("label"), pa.float64(), safe=False)
        if self.failing is not None:
            found["failing"] = self.failing(rows)
        arrays = [found.get(each.name, pa.nulls(count, each.type)) for each in _ARROW]
        return pa.record_batch(arrays, schema=_ARROW)


def keyed(session: "SparkSession", splits: Sequence[Split], failing: Failing | None = None) -> "DataFrame":
    """Return the keys of all rows of a stored log."""
    task = Keys(session.sparkContext.broadcast(list(splits)), failing)
    return mapped(frame_of(session, splits), task, _KEYED)


def later_ids(rows: "DataFrame", splits: Sequence[Split]) -> "DataFrame":
    """Return the rows whose event id occurs in an earlier row."""
    spread = min(max(8, sum(each.rows for each in splits) // BUCKET_ROWS), MOST_SPREAD)
    nth = "row_number() over (partition by id order by number, row) as nth"
    known = rows.where("id is not null").repartition(spread, "id")
    return known.selectExpr("number", "row", "failing", nth).where("nth > 1")


def as_bytes(ids: pa.Array) -> pa.Array:
    """Return ids of any type as bytes that identify them."""
    if not (pa.types.is_binary(ids.type) or pa.types.is_large_binary(ids.type)):
        ids = ids.cast(pa.string())
    return ids.cast(pa.binary())


def stored_batches(split: Split, columns: Sequence[str] = ()) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split as written, with the existing ones of these columns, or with all."""
    source = ParquetSource(Path(split.path), groups=split.groups)
    names = [name for name in columns or source.types if name in source.types]
    for batch in source.batches(names, as_written=True) if names else ():
        yield from (batch.slice(first, SPAN) for first in range(0, batch.num_rows, SPAN))


def changed_labels(session: "SparkSession", old: Sequence[Split], new: Sequence[Split]) -> int:
    """Count like :func:`slc_ops.intake.labels.changed_labels`: contradictory labels of an event are none."""
    from pyspark.sql import functions as f

    if not (old and new):
        return 0
    before, now = (keyed(session, each).where("id is not null and label is not null") for each in (old, new))
    known = before.groupBy("id").agg(f.min("label").alias("was"), f.max("label").alias("most"))
    changed = now.join(known.where("was = most"), "id").where("label <> was").selectExpr("count(*)")
    return int(collected(session, changed).column(0)[0].as_py())


@dataclass
class Divided(Additive):
    """The result of some parts: the number of bad rows, and the digests of the clean parts."""

    bad: int
    clean: dict[str, str]


def divide(
    session: "SparkSession",
    splits: list[Split],
    work: Divide,
    bad: Path,
    clean: Path | None,
    *,
    ids_repeat: bool,
) -> tuple[int, str]:
    """Divide like :func:`slc_ops.rows.stored.divide`, into folders of parts."""
    places = session.range(len(splits)).selectExpr("id as number", "-1L as row")
    if ids_repeat:
        places = places.union(later_ids(keyed(session, splits), splits).select("number", "row"))
    with ExitStack() as folders:
        made = []
        for target in (bad,) if clean is None else (bad, clean):
            if target.is_file():  # one file of another engine
                target.unlink()
            made.append(folders.enter_context(replacing_directory(target)))
        shared = session.sparkContext.broadcast(splits)
        each = DividedPart(shared, work, made[0], None if clean is None else made[1])
        found: Divided = each_group(session, places, each, len(splits))
        for folder in made:
            drop_unfinished(folder)
    return found.bad, "" if clean is None else digest_parts(found.clean)


@dataclass(frozen=True)
class DividedPart:
    """Divides one part of a log; ``places`` has the later occurrences of ids."""

    splits: Any
    work: Divide
    bad: Path
    clean: Path | None
    code: str = field(default_factory=code_version)

    def __call__(self, number: int, places: pa.Table) -> Divided:
        """Write the part's files; the file of bad rows only if there are any (part 0 always)."""
        check_code(self.code)
        split: Split = self.splits.value[number]
        name = part_name(number)
        clean = None if self.clean is None else self.clean / name
        schema = stored_schema(Path(split.path))
        duplicate = places["row"].to_numpy()
        count = self.work(stored_batches(split), schema, duplicate, self.bad / name, clean)
        if not count and number:
            (self.bad / name).unlink()
        return Divided(count, {} if clean is None else {name: digest_file(clean)})


def each_group(
    session: "SparkSession", frame: "DataFrame", work: Callable[[int, pa.Table], Any], groups: int
) -> Any:
    """Return the sum of ``work`` over the groups of rows with the same ``number``."""

    def answered(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        number = key[0].as_py()
        return pa.Table.from_batches([answer_of(number, partial(work, number, rows))])

    spread = frame.repartition(min(groups, MOST_SPREAD), "number")
    with quiet():
        return added(collected(session, spread.groupBy("number").applyInArrow(answered, ANSWER)))
