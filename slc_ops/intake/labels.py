"""Labels that arrive later than their rows, or from a separate source.

A row without a label is not a bad row: it is omitted from the window, counted, and read again with the
``lookback_windows``. The result is a window of labelled rows, the same as from a log without delays.
"""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.base.errors import InputError
from slc_ops.base.ids import IdIndex
from slc_ops.base.parquet import read_parquet, stored_schema
from slc_ops.base.window import Window
from slc_ops.intake.contract import TIME, convert, selection
from slc_ops.intake.sources import Source
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.sources import Mapped

MICROSECOND = timedelta(microseconds=1)
WAITING = "rows_without_label"
REPEATED = "labels_repeated"
CONTRADICTORY = "labels_contradictory"
EARLY = "labels_early"
UNMATCHED = "labels_unmatched"
EXPECTED = "labels_expected"
CHANGED = "labels_changed"
READ = "labels_read"
NOTES = (WAITING, REPEATED, CONTRADICTORY, EARLY, UNMATCHED, EXPECTED, CHANGED, READ)
"""Manifest notes about labels."""
UNKNOWN = np.iinfo(np.int64).max
"""The time of a label without a timestamp: later than any event."""
ID = pa.large_string()
"""All ids of a span in one array may exceed two gigabytes."""


def label_span(deployment: Deployment, window: Window) -> Window:
    """Return the period in which labels of the window may arrive: until its last re-read is due."""
    last = window
    for _ in range(deployment.lookback_windows):
        last = deployment.cadence.containing(last.end)
    return Window(window.start, last.end + deployment.lag, window.zone)


class Labels:
    """One label per event.

    The newest label of an event counts; if the newest ones contradict each other, none does.
    """

    def __init__(self, ids: pa.ChunkedArray, labels: pa.ChunkedArray, times: np.ndarray) -> None:
        encoded = ids.cast(ID).combine_chunks().dictionary_encode()
        values = labels.combine_chunks()
        codes, plain = (part.to_numpy(zero_copy_only=False) for part in (encoded.indices, values))
        order = np.lexsort((plain, times, codes))  # by event, time, label
        codes, times, plain = codes[order], times[order], plain[order]
        last = np.flatnonzero(np.diff(codes, append=-1))
        first = np.append(0, last[:-1] + 1)[: len(last)]
        each = codes  # codes run from 0 without gaps: they index events
        unlike = (times == times[last][each]) & (plain != plain[last][each])
        self.ids: pa.Array = encoded.dictionary
        self.times = times[last]
        self.contradictory: np.ndarray = np.add.reduceat(unlike, first) > 0 if len(first) else unlike
        self.values: pa.Array = pc.if_else(
            pa.array(self.contradictory), pa.scalar(None, values.type), values.take(pa.array(order[last]))
        )
        self.read = len(codes)
        self._index = IdIndex(self.ids, "event_id")

    def find(self, ids: pa.Array) -> np.ndarray:
        """Return the index of each id's label, or −1."""
        known = ids.is_valid()
        found = np.full(len(ids), -1)
        found[np.asarray(known)] = self._index.find(ids.filter(known).cast(ID))
        return found


def read_labels(source: Source, settings: Mapped, span: Window) -> Labels:
    """Return all labels of the span. Memory: the id and about thirty bytes per label."""
    ids: list[pa.Array] = []
    labels: list[pa.Array] = []
    times: list[np.ndarray] = []
    start, end = pa.scalar(span.start, TIME), pa.scalar(span.end, TIME)
    for batch in source.batches():
        needed = ["event_id", "label"]
        chosen = selection(batch.schema.names, settings.columns, needed, "the source of labels")
        rows = {name: convert(name, batch.column(chosen[name]), settings) for name in needed}
        if (kind := rows["label"].type) not in (pa.int64(), pa.float64()):
            raise InputError(f"the labels' column label is {kind}; expected whole numbers, 0 or 1")
        usable = pc.and_(rows["event_id"].is_valid(), rows["label"].is_valid())
        time = pa.nulls(batch.num_rows, TIME)
        if "event_time" in chosen:
            time = convert("event_time", batch.column(chosen["event_time"]), settings)
            if not source.selects:
                inside = pc.and_(pc.greater_equal(time, start), pc.less(time, end))
                usable = pc.and_(usable, pc.fill_null(inside, False))
        ids.append(pc.cast(rows["event_id"], ID).filter(usable))
        labels.append(rows["label"].filter(usable))
        known = time.filter(usable).cast(pa.int64())
        times.append(known.fill_null(UNKNOWN).to_numpy(zero_copy_only=False))
    kinds = {each.type for each in labels}
    kind = pa.float64() if pa.float64() in kinds else pa.int64()
    return Labels(
        pa.chunked_array(ids, ID),
        pa.chunked_array([each.cast(kind) for each in labels], kind),
        np.concatenate([np.empty(0, np.int64), *times]),
    )


def joined(
    batches: Iterator[pa.RecordBatch], labels: Labels, window: Window, lag: timedelta, notes: dict[str, Any]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows with their labels (null where none applies); add the counts to ``notes``."""
    used = np.zeros(len(labels.ids), bool)
    early = 0
    for batch in batches:
        if "event_id" not in batch.schema.names:
            raise InputError("the log has no event_id, by which labels of another source are joined")
        place = labels.find(batch.column("event_id"))
        found = place >= 0
        used[place[found]] = True
        timestamp = batch.column("event_time").cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        before = found.copy()
        before[found] = labels.times[place[found]] < timestamp[found]
        early += int(before.sum())
        usable = pa.array(np.where(found & ~before, place, 0), mask=~found | before)
        columns = {name: batch.column(name) for name in batch.schema.names}
        yield pa.record_batch(columns | {"label": labels.values.take(usable)})
    notes[READ], notes[EARLY] = labels.read, early
    notes[REPEATED] = labels.read - len(labels.ids)
    notes[CONTRADICTORY] = int(labels.contradictory.sum())
    # Labels of these times belong to rows of this window, if they arrived within the lag.
    start, end = (
        pa.scalar(timestamp, TIME).cast(pa.int64()).as_py() for timestamp in (window.start, window.end)
    )
    own = (labels.times >= start + lag // MICROSECOND) & (labels.times < end)
    notes[EXPECTED], notes[UNMATCHED] = int(own.sum()), int((own & ~used).sum())


def without_waiting(batches: Iterator[pa.RecordBatch], notes: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    """Yield the rows that have a label; count the others in ``notes``."""
    notes[WAITING] = 0
    for batch in batches:
        waiting = batch.column("label").null_count if "label" in batch.schema.names else 0
        notes[WAITING] += waiting
        rows = batch.filter(batch.column("label").is_valid()) if waiting else batch
        if rows.num_rows:
            yield rows


def changed_labels(old: Path, new: Path) -> int:
    """Count the events whose label differs between the old log and the new one."""
    if not (has_labels(old) and has_labels(new)):
        return 0
    before, now = (read_parquet(path, ["event_id", "label"]).drop_null() for path in (old, new))
    known = Labels(before["event_id"], before["label"], np.zeros(before.num_rows, np.int64))
    place = known.find(now["event_id"].combine_chunks())
    found = place >= 0
    was = known.values.take(pa.array(place[found]))
    return int(pc.sum(pc.not_equal(was, now["label"].filter(pa.array(found)))).as_py() or 0)


def has_labels(path: Path) -> bool:
    """Return True when a log has event ids and numeric labels."""
    schema = stored_schema(path)
    numeric = "label" in schema.names and pa.types.is_primitive(schema.field("label").type)
    return numeric and "event_id" in schema.names
