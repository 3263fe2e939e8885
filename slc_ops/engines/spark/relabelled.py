"""Count the events of a window whose label changed, on the executors."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.base.hashing import value_hashes
from slc_ops.base.parquet import parts_of
from slc_ops.engines.spark.gathering import ROW_BITS, HandsOn, Keyed, gathered, show_stored
from slc_ops.engines.spark.splits import parquet, plan_splits
from slc_ops.intake.labels import changed_between, has_labels
from slc_ops.rows.passes import Totals

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LABELS = 1
_TEXT = pa.string()


def changed_labels(session: "SparkSession", old: Path, new: Path) -> int:
    """Count like :func:`slc_ops.intake.labels.changed_labels`."""
    if not (has_labels(old) and has_labels(new)):
        return 0
    before, now = (plan_splits([parquet(part.absolute()) for part in parts_of(path)]) for path in (old, new))
    splits = [*before, *now]
    if not (before and now):
        return 0
    found = gathered(session, splits, show_stored, Relabelled(len(before)), sum(each.rows for each in splits))
    return int(found[LABELS].values[0]) if LABELS in found else 0


@dataclass(frozen=True)
class Relabelled:
    """Groups the labels of an event; the first ``old`` parts belong to the earlier version."""

    old: int

    def part(self, number: int) -> "LabelsOfPart":
        """Return the observer of a part."""
        return LabelsOfPart(number, number >= self.old)

    def together(self, kind: int, rows: pa.Table) -> Totals:
        """Count the changed events; ``failing`` marks the later version."""
        sides = [rows.filter(pc.equal(rows["failing"], later)) for later in (False, True)]
        tables = [pa.table({"event_id": each["id"].cast(_TEXT), "label": each["value"]}) for each in sides]
        return Totals(np.array([float(changed_between(*tables))]))


class LabelsOfPart(HandsOn):
    """The events of one part that have a label."""

    hashed = ()

    def __init__(self, number: int, is_later: bool) -> None:
        super().__init__()
        self._number, self._is_later, self._rows = number, is_later, 0

    def add(self, batch: pa.RecordBatch, hashes: Mapping[str, np.ndarray]) -> None:
        """Add the labels of further rows."""
        ids, labels = batch.column("event_id"), batch.column("label")
        usable = np.asarray(pc.and_(ids.is_valid(), labels.is_valid()))
        text = ids.cast(_TEXT).filter(pa.array(usable))
        rows = self._rows + np.flatnonzero(usable)
        self._waiting.append(
            Keyed(
                LABELS,
                (self._number << ROW_BITS) + rows,
                value_hashes(text),
                text.cast(pa.binary()),
                np.full(len(rows), self._is_later),
                labels.filter(pa.array(usable)).cast(pa.float64()),
            )
        )
        self._rows += batch.num_rows
