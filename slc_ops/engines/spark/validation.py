"""Statistics and quarantine of a window, with the rules of the local engine, computed by executors.

Counts of parts add up. Repeated ids and rows do not: repetitions within a span are found directly, and the
first occurrence of each is emitted, keyed by its hash, for comparison with other spans.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.base.code_version import code_version
from slc_ops.base.digests import digest_file
from slc_ops.base.files import replacing_directory
from slc_ops.base.parquet import digest_parts, part_name
from slc_ops.base.window import Window
from slc_ops.engines.spark.cluster import check_code, quiet
from slc_ops.engines.spark.gathering import (
    ANSWER,
    ROW_BITS,
    HandsOn,
    Keyed,
    each_group,
    gathered,
    keyed_rows,
    show_stored,
    stored_batches,
)
from slc_ops.engines.spark.parts import drop_unfinished
from slc_ops.engines.spark.splits import Split
from slc_ops.quality.passes import HASHED, Pass, merged
from slc_ops.quality.statistics import MAX_EXAMPLES, Repeats, RowStatistics
from slc_ops.rows.stored import Divide, later, stored_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

IDS, ROWS = 1, 2  # kinds of keyed rows
_PLACES = "number long, row long"


def show(session: "SparkSession", splits: list[Split], statistics: RowStatistics) -> None:
    """Pass a stored log to the statistics, on the executors."""
    if splits:
        total = sum(split.rows for split in splits)
        take(statistics, gathered(session, splits, show_stored, partwise_of(statistics), total))


def partwise_of(statistics: RowStatistics) -> "PartwiseStatistics":
    """Return the partwise observer of these statistics."""
    return PartwiseStatistics(statistics.window, statistics.logit_limit, MAX_EXAMPLES)


def take(statistics: RowStatistics, found: dict[int, Any]) -> None:
    """Add the results of :func:`~slc_ops.engines.spark.gathering.gathered` to the statistics."""
    sums: PartSums | None = found[ANSWER].one
    if sums is None:  # no parts
        return
    repeated = sums.repeated
    for kind in (IDS, ROWS):
        if kind in found:
            repeated.merge(found[kind])
    numbers = sorted(sums.rows)
    ends = dict(zip(numbers, accumulate(sums.rows[number] for number in numbers), strict=True))
    shown = []
    for position in repeated.first:
        part, row = position >> ROW_BITS, position & (1 << ROW_BITS) - 1
        shown.append({"row": ends[part] - sums.rows[part] + row})
    failed = sums.failed_rows + repeated.otherwise_good
    statistics.take(sums.run, Repeats(repeated.ids, failed, repeated.rows, shown))


class PartPass(Pass):
    """A pass over consecutive parts that can be serialised and added."""

    def merge(self, other: Pass) -> None:
        """Add the pass over the rows that follow; its hashes were already emitted."""
        for code, count in other.failed.items():
            self.failed[code] += count
        for code, found in other.examples.items():
            examples = self.examples.setdefault(code, [])
            numbered = [{**each, "row": each["row"] + self.rows} for each in found]
            examples += numbered[: self.max_examples - len(examples)]
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


@dataclass
class Repeated:
    """Later occurrences of event ids: their number, the number without another fault, and examples.

    ``first`` has their positions. ``rows`` counts rows that repeat (user, item, time, label).
    """

    most: int
    ids: int = 0
    otherwise_good: int = 0
    first: list[int] = field(default_factory=list)
    rows: int = 0

    def note(self, position: np.ndarray, failing: np.ndarray) -> None:
        """Add later occurrences; ``position`` ascends."""
        self.ids += len(position)
        self.otherwise_good += int(np.count_nonzero(~failing))
        self._keep([*self.first, *position[: self.most].tolist()])

    def merge(self, other: "Repeated") -> None:
        """Add those of other rows."""
        self.ids += other.ids
        self.otherwise_good += other.otherwise_good
        self.rows += other.rows
        self._keep([*self.first, *other.first])

    def _keep(self, found: list[int]) -> None:
        self.first = sorted(found)[: self.most]


@dataclass
class PartSums:
    """The counts of some consecutive parts."""

    run: PartPass
    failed_rows: int
    repeated: Repeated
    rows: dict[int, int]

    def merge(self, other: "PartSums") -> None:
        """Add the parts that follow."""
        self.run.merge(other.run)
        self.failed_rows += other.failed_rows
        self.repeated.merge(other.repeated)
        self.rows |= other.rows


@dataclass(frozen=True)
class PartwiseStatistics:
    """The observer that is sent to the executors."""

    window: Window
    logit_limit: float
    max_examples: int

    def part(self, number: int) -> "PartStatistics":
        """Return the observer of a part."""
        return PartStatistics(number, PartPass(self.window, self.logit_limit, self.max_examples))

    def together(self, kind: int, rows: pa.Table) -> Repeated:
        """Count the grouped rows that repeat others."""
        found = Repeated(self.max_examples)
        if kind == ROWS:
            found.rows = rows.num_rows - pc.count_distinct(rows["hash"]).as_py()
            return found
        again = later_ids(rows)
        failing = again["failing"].to_numpy()
        found.note(again["position"].to_numpy(), failing)
        return found


class PartStatistics(HandsOn):
    """Counts the rows of one part."""

    hashed = HASHED

    def __init__(self, number: int, run: PartPass) -> None:
        super().__init__()
        self._number, self._run = number, run
        self._failed, self._repeated = 0, Repeated(run.max_examples)

    def add(self, batch: pa.RecordBatch, hashes: Mapping[str, np.ndarray]) -> None:
        """Add rows."""
        first, run = self._run.rows, self._run
        run.add(batch, hashes)
        failing = np.zeros(batch.num_rows, bool)
        failing[run.take_bad_rows() - first] = True
        self._failed += int(np.count_nonzero(failing))
        position = (self._number << ROW_BITS) + np.arange(first, run.rows, dtype=np.int64)
        found = run.take_id_hashes()
        if "event_id" in batch.schema.names:
            valid = np.asarray(batch.column("event_id").is_valid())
            keyed, again = first_ids(batch.column("event_id").drop_null(), found, position[valid])
            if again.any():
                self._repeated.note(position[valid][again], failing[valid][again])
            self._waiting.append(replace(keyed, failing=failing[valid][~again]))
        rows = run.take_row_hashes()
        if len(rows):
            distinct, where = np.unique(rows, return_index=True)
            self._repeated.rows += len(rows) - len(distinct)
            self._waiting.append(Keyed(ROWS, position[where], distinct))

    def sums(self) -> PartSums:
        """Return the counts of the part."""
        return PartSums(self._run, self._failed, self._repeated, {self._number: self._run.rows})


def first_ids(ids: pa.Array, hashes: np.ndarray, position: np.ndarray) -> tuple[Keyed, np.ndarray]:
    """Return the first occurrence of each id of a span, to compare with other spans; a mask of the others."""
    again, plain = later(ids), as_bytes(ids)
    if again.any():
        plain = plain.filter(pa.array(~again))
    return Keyed(IDS, position[~again], hashes[~again], plain), again


def later_ids(rows: pa.Table) -> pa.Table:
    """Return the rows (position, id, …) whose id occurs at an earlier position, in order."""
    rows = rows.select(["position", "id", "failing"]).sort_by("position")
    return rows.filter(pa.array(later(rows["id"].combine_chunks())))


def as_bytes(ids: pa.Array) -> pa.Array:
    """Return ids of any type as bytes that identify them."""
    if not (pa.types.is_binary(ids.type) or pa.types.is_large_binary(ids.type)):
        ids = ids.cast(pa.string())
    return ids.cast(pa.binary())


@dataclass
class Divided:
    """The result of some parts: the number of bad rows, and the digests of the clean parts."""

    bad: int
    clean: dict[str, str]

    def merge(self, other: "Divided") -> None:
        """Add further parts."""
        self.bad += other.bad
        self.clean |= other.clean


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
        total = sum(each.rows for each in splits)
        keyed = keyed_rows(session, splits, show_stored, IdsOfPart, total).where(f"kind = {IDS}")
        with quiet():
            places = places.union(keyed.groupBy("bucket").applyInArrow(later_places, _PLACES))
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


class IdsOfPart(HandsOn):
    """The first occurrence of each event id in the spans of one part."""

    hashed = ("event_id",)

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number, self._rows = number, 0

    def add(self, batch: pa.RecordBatch, hashes: Mapping[str, np.ndarray]) -> None:
        """Add the ids of further rows."""
        ids = batch.column("event_id")
        valid = np.flatnonzero(np.asarray(ids.is_valid()))
        position = (self._number << ROW_BITS) + self._rows + valid
        self._waiting.append(first_ids(ids.drop_null(), hashes["event_id"][valid], position)[0])
        self._rows += batch.num_rows


def later_places(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
    """A task: return part and row of the ids that occur at an earlier position, in another span."""
    position = later_ids(rows)["position"].to_numpy()
    return pa.table({"number": position >> ROW_BITS, "row": position & (1 << ROW_BITS) - 1})


@dataclass(frozen=True)
class DividedPart:
    """Divides one part of a log; ``places`` has the later occurrences of ids of other spans."""

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
        own = [np.flatnonzero(mask) + first for first, mask in self._later_in_spans(split)]
        duplicate = np.concatenate([places["row"].to_numpy(), *own])
        clean = None if self.clean is None else self.clean / name
        schema = stored_schema(Path(split.path))
        count = self.work(stored_batches(split), schema, duplicate, self.bad / name, clean)
        if not count and number:
            (self.bad / name).unlink()
        return Divided(count, {} if clean is None else {name: digest_file(clean)})

    def _later_in_spans(self, split: Split) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the first row of each span and a mask of ids that occurred earlier within it."""
        first = 0
        for batch in stored_batches(split, ["event_id"]):
            ids = batch.column(0)
            mask = np.zeros(len(ids), bool)
            mask[np.asarray(ids.is_valid())] = later(ids.drop_null())
            yield first, mask
            first += len(ids)
