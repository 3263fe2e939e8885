"""One pass over a window's rows: sums over batches; memory grows by two hashes per row."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike

from slc_ops.base.hashing import combined_hashes
from slc_ops.base.window import Window
from slc_ops.quality.rows import RowCheck, failures, numbers, row_checks

HOUR = timedelta(hours=1)
MICROSECOND = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
IDENTITY = ("user_id", "item_id", "event_time", "label")
"""Columns that identify a row; successes and failures of one time may be two weighted rows."""
PRIVATE = {"event_id", "user_id"}
"""Columns that may identify people: stored results never contain their values."""
MAX_EXAMPLES = 10
MERGE_ITEMS = 1_000_000
MAX_VERSIONS = 100  # more are an error in the log; they are counted together


class Pass:
    """Sums over batches, from which the statistics are computed."""

    def __init__(self, window: Window, logit_limit: float) -> None:
        self.checks = row_checks(window.start, window.end, logit_limit)
        self.logit_limit = logit_limit
        self.start_us = (window.start - EPOCH) // MICROSECOND
        self.hours = np.zeros(-(-(window.end - window.start) // HOUR), np.int64)
        self.rows = 0
        self.failed: Counter[str] = Counter()
        self.examples: dict[str, list[dict[str, Any]]] = {}
        self.labels = np.zeros(2)  # valid labels: count, sum
        self.logits = np.zeros(3)  # valid logits: count, sum, sum of squares
        self.readings = np.zeros(2)  # while all are in [0, 1]: NLL as logits, and as probabilities
        self.misfit = np.zeros(3)  # rows with a label and a logit: count, excess NLL, its squares
        self.low, self.high = np.inf, -np.inf
        self.versions: Counter[str] = Counter()
        self._items: list[pa.Table] = []
        self.bad_rows: list[np.ndarray] = []  # positions, once per failed check
        self.id_hashes: list[np.ndarray] = []
        self.row_hashes: list[np.ndarray] = []  # of (user, item, time, label)

    def add(self, batch: pa.RecordBatch, hashes: Mapping[str, np.ndarray]) -> None:
        """Add one batch; ``hashes`` are those of its columns."""
        failing = failures(batch, self.checks)
        for check in self.checks:
            if check.code in failing:
                self._note(check, batch, failing[check.code])
        self._count_numbers(batch, failing)
        self._count_names(batch, hashes)
        self.rows += batch.num_rows

    def distinct_items(self) -> pa.Table:
        """Return item_id and its number of rows."""
        if not self._items:
            return pa.table({"item_id": pa.array([], pa.string()), "rows": pa.array([], pa.int64())})
        return merged(self._items).sort_by("item_id")

    def _note(self, check: RowCheck, batch: pa.RecordBatch, failing: np.ndarray) -> None:
        rows = np.flatnonzero(failing)
        self.failed[check.code] += len(rows)
        examples = self.examples.setdefault(check.code, [])
        for row in rows[: MAX_EXAMPLES - len(examples)]:
            examples.append(example(batch, int(row), self.rows, check.column))
        if len(rows):
            self.bad_rows.append(rows + self.rows)

    def _count_numbers(self, batch: pa.RecordBatch, failing: dict[str, np.ndarray]) -> None:
        labels, scores = checked(batch, "label", failing), checked(batch, "logit", failing)
        if labels is not None:
            label = without(*labels)
            self.labels += (len(label), float(label.sum()))
        are_logits = scores is not None
        if scores is None and (found := checked(batch, "probability", failing)) is not None:
            scores = as_logits(found[0], self.logit_limit), found[1]
        if scores is None or not len(logit := without(*scores)):
            return
        self.logits += (len(logit), float(logit.sum()), squares(logit))
        self.low, self.high = min(self.low, float(logit.min())), max(self.high, float(logit.max()))
        if labels is not None:
            bad = labels[1] | scores[1]
            label, logit = without(labels[0], bad), without(scores[0], bad)
            self.misfit += excess_nll(label, logit)
            if are_logits and self.low >= 0 and self.high <= 1:
                self.readings += both_readings(label, logit)

    def _count_names(self, batch: pa.RecordBatch, hashes: Mapping[str, np.ndarray]) -> None:
        names = batch.schema.names
        if "event_time" in names:
            micros = batch.column("event_time").cast(pa.int64()).drop_null().to_numpy() - self.start_us
            hours = micros // (HOUR // MICROSECOND)
            inside = hours[(hours >= 0) & (hours < len(self.hours))]
            self.hours += np.bincount(inside, minlength=len(self.hours))
        if "item_id" in names:
            self._items.append(item_counts(batch.column("item_id")))
            if sum(part.num_rows for part in self._items) > MERGE_ITEMS:
                self._items = [merged(self._items)]
        if "backbone_version" in names:
            for entry in batch.column("backbone_version").value_counts().to_pylist():
                if entry["values"] is not None:  # rows without a version may be of any
                    self._count_version(short(str(entry["values"])), entry["counts"])
        if "event_id" in names:
            ids = batch.column("event_id")
            found = hashes["event_id"]
            self.id_hashes.append(found[numbers(ids.is_valid())] if ids.null_count else found)
        if set(IDENTITY) <= set(names):
            self.row_hashes.append(combined_hashes(*(hashes[name] for name in IDENTITY)))

    def _count_version(self, name: str, count: int) -> None:
        known = name in self.versions or len(self.versions) < MAX_VERSIONS
        self.versions[name if known else "(others)"] += count


def item_counts(items: pa.Array) -> pa.Table:
    """Return item_id and its number of rows in one batch."""
    counts = items.value_counts()
    return pa.table({"item_id": counts.field("values"), "rows": counts.field("counts")})


def checked(
    batch: pa.RecordBatch, column: str, failing: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return a column's numbers with a mask of bad rows; None if it is absent or of a wrong type."""
    masks = [mask for code, mask in failing.items() if code.startswith(f"{column}_")]
    if len(masks) < 2:  # a wrong type is checked for nulls only
        return None
    return numbers(batch.column(column)), np.logical_or.reduce(masks)


def as_logits(probability: np.ndarray, limit: float) -> np.ndarray:
    """Return probabilities as logits within the limit."""
    clipped = np.clip(probability, 1e-6, 1 - 1e-6)
    logits: np.ndarray = np.clip(np.log(clipped / (1 - clipped)), -limit, limit)
    return logits


def excess_nll(label: np.ndarray, logit: np.ndarray) -> tuple[int, float, float]:
    """Return rows, sum and sum of squares of the excess NLL.

    It is the NLL of a row's label minus the NLL that the model expects, logit · (p − label).
    """
    with np.errstate(over="ignore"):
        excess = logit * (1 / (1 + np.exp(-logit)) - label)
        return len(excess), float(excess.sum()), squares(excess)


def squares(values: np.ndarray) -> float:
    """Return the sum of squares, added in one order; BLAS would also wait for its threads."""
    return float(np.einsum("i,i->", values, values))


def both_readings(label: np.ndarray, score: np.ndarray) -> tuple[float, float]:
    """Return the NLL of the labels with the scores as logits, and as probabilities."""
    probability = np.clip(score, 1e-6, 1 - 1e-6)
    as_logits = np.logaddexp(0, score) - label * score
    as_probabilities = -np.where(label == 1, np.log(probability), np.log1p(-probability))
    return float(as_logits.sum()), float(as_probabilities.sum())


def without(values: np.ndarray, bad: np.ndarray) -> np.ndarray:
    """Return the rows that are not bad; no copy if none is."""
    return values[~bad] if bad.any() else values


def example(batch: pa.RecordBatch, row: int, offset: int, column: str) -> dict[str, Any]:
    """Return one failing row: its number and the value, without an id of a user or an event.

    Stored and published results contain examples; :func:`slc_ops.quality.statistics.with_ids` adds ids to a
    message.
    """
    shown: dict[str, Any] = {"row": offset + row}
    if column not in PRIVATE and column in batch.schema.names:
        shown[column] = short(batch.column(column)[row].as_py())
    return shown


def short(value: Any) -> Any:
    """Return a value for a message: JSON, and at most 60 characters.

    >>> short(float("nan")), len(short("x" * 10_000))
    ('nan', 61)
    """
    if value is None or isinstance(value, (bool, int)):
        return value
    text = str(value)
    return text if len(text) <= 60 else text[:60] + "…"


def merged(parts: list[pa.Table]) -> pa.Table:
    """Return the sum of the counts by item."""
    table = pa.concat_tables(parts)
    return table.group_by("item_id").aggregate([("rows", "sum")]).rename_columns(["item_id", "rows"])


def taken(parts: list[np.ndarray], kind: DTypeLike = np.uint64) -> np.ndarray:
    """Return the parts as one array and empty the list."""
    whole = np.concatenate(parts) if parts else np.empty(0, kind)
    parts.clear()
    return whole
