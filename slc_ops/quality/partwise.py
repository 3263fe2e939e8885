"""Statistics of a window whose rows are shown part by part, wherever they lie.

Counts of parts add up. What does not are ids and rows that occur twice: within a span they are found on the
spot, and the first of each is handed on, keyed by its hash, to be compared with those of other spans.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.base.window import Window
from slc_ops.quality.duplicates import later
from slc_ops.quality.passes import HASHED, Pass, short
from slc_ops.rows.spark.gathering import ROW_BITS, Keyed

IDS, ROWS = 1, 2  # kinds of keyed rows


@dataclass
class Repeated:
    """Later occurrences of event ids: how many, how many of them fail no check, the first ones as examples.

    ``first`` holds positions and ids. ``rows`` counts rows that repeat (user, item, time).
    """

    most: int
    ids: int = 0
    otherwise_good: int = 0
    first: list[tuple[int, str]] = field(default_factory=list)
    rows: int = 0

    def note(self, position: np.ndarray, ids: pa.Array, failing: np.ndarray) -> None:
        """Count later occurrences in; ``position`` ascends."""
        self.ids += len(position)
        self.otherwise_good += int(np.count_nonzero(~failing))
        shown = [short(value.decode("utf-8", "replace")) for value in ids[: self.most].to_pylist()]
        self._keep([*self.first, *zip(position[: self.most].tolist(), shown, strict=True)])

    def add(self, other: "Repeated") -> None:
        """Take up those of other rows."""
        self.ids += other.ids
        self.otherwise_good += other.otherwise_good
        self.rows += other.rows
        self._keep([*self.first, *other.first])

    def _keep(self, found: list[tuple[int, str]]) -> None:
        self.first = sorted(found)[: self.most]


@dataclass
class PartSums:
    """What was counted in some consecutive parts."""

    run: Pass
    failed_rows: int
    repeated: Repeated
    rows: dict[int, int]

    def add(self, other: "PartSums") -> None:
        """Take up the parts that follow."""
        self.run.take_up(other.run)
        self.failed_rows += other.failed_rows
        self.repeated.add(other.repeated)
        self.rows |= other.rows


@dataclass(frozen=True)
class PartwiseStatistics:
    """What is sent to where the rows lie."""

    window: Window
    logit_limit: float
    max_examples: int

    def part(self, number: int) -> "PartStatistics":
        """Begin with a part."""
        return PartStatistics(number, Pass(self.window, self.logit_limit, self.max_examples))

    def together(self, kind: int, rows: pa.Table) -> Repeated:
        """Which of the rows that were brought together repeat others."""
        found = Repeated(self.max_examples)
        if kind == ROWS:
            found.rows = rows.num_rows - pc.count_distinct(rows["hash"]).as_py()
            return found
        again = later_ids(rows)
        failing = again["failing"].to_numpy()
        found.note(again["position"].to_numpy(), again["id"].combine_chunks(), failing)
        return found


def later_ids(rows: pa.Table) -> pa.Table:
    """The rows (position, id, …) whose id occurs at an earlier position, in order."""
    rows = rows.select(["position", "id", "failing"]).sort_by("position")
    return rows.filter(pa.array(later(rows["id"].combine_chunks())))


class PartStatistics:
    """Sees the rows of one part."""

    hashed = HASHED

    def __init__(self, number: int, run: Pass) -> None:
        self._number, self._run = number, run
        self._failed, self._repeated = 0, Repeated(run.max_examples)
        self._waiting: list[Keyed] = []

    def add(self, batch: pa.RecordBatch, hashes: Mapping[str, np.ndarray]) -> None:
        """Count rows in."""
        first, run = self._run.rows, self._run
        run.add(batch, hashes)
        failing = np.zeros(batch.num_rows, bool)
        failing[run.take_bad_rows() - first] = True
        self._failed += int(np.count_nonzero(failing))
        position = (self._number << ROW_BITS) + np.arange(first, run.rows, dtype=np.int64)
        found = run.take_id_hashes()
        if "event_id" in batch.schema.names:
            ids = batch.column("event_id")
            if ids.null_count:
                valid = np.asarray(ids.is_valid())
                self._count_ids(ids.drop_null(), found, position[valid], failing[valid])
            else:
                self._count_ids(ids, found, position, failing)
        rows = run.take_row_hashes()
        if len(rows):
            distinct, where = np.unique(rows, return_index=True)
            self._repeated.rows += len(rows) - len(distinct)
            self._waiting.append(Keyed(ROWS, position[where], distinct))

    def _count_ids(
        self, ids: pa.Array, hashes: np.ndarray, position: np.ndarray, failing: np.ndarray
    ) -> None:
        again, plain = later(ids), as_bytes(ids)
        if again.any():
            self._repeated.note(position[again], plain.filter(pa.array(again)), failing[again])
            position, hashes, failing = position[~again], hashes[~again], failing[~again]
            plain = plain.filter(pa.array(~again))
        self._waiting.append(Keyed(IDS, position, hashes, plain, failing))

    def keyed(self) -> Iterator[Keyed]:
        """What has to be compared with other spans, since this was last asked."""
        waiting, self._waiting = self._waiting, []
        yield from waiting

    def sums(self) -> PartSums:
        """What adds up."""
        return PartSums(self._run, self._failed, self._repeated, {self._number: self._run.rows})


def as_bytes(ids: pa.Array) -> pa.Array:
    """Ids of any type in a form that tells them apart."""
    if not (pa.types.is_binary(ids.type) or pa.types.is_large_binary(ids.type)):
        ids = ids.cast(pa.string())
    return ids.cast(pa.binary())
