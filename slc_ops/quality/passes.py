"""The pass itself: sums over batches, in memory that grows by two hashes a row and nothing else."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike

from slc_ops.base.hashing import mix
from slc_ops.base.utf8 import MARK
from slc_ops.base.window import Window
from slc_ops.quality.rows import RowCheck, failures, flags, row_checks

HOUR = timedelta(hours=1)
MICROSECOND = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
IDENTITY = ("user_id", "item_id", "event_time", "label")
"""What makes two rows the same; successes and failures of one time may be two weighted rows."""
HASHED = ("event_id", *IDENTITY)
PRIVATE = {"event_id", "user_id"}
"""Columns that name people or may: their values are never quoted in what is kept."""
MERGE_ITEMS = 1_000_000
MAX_VERSIONS = 100  # more are no versions but a mistake; they are counted together


class Pass:
    """Counts batches in; the statistics read the sums off."""

    def __init__(self, window: Window, logit_limit: float, max_examples: int) -> None:
        self.checks = row_checks(window.start, window.end, logit_limit)
        self.logit_limit = logit_limit
        self.max_examples = max_examples
        self.start_us = (window.start - EPOCH) // MICROSECOND
        self.hours = np.zeros(-(-(window.end - window.start) // HOUR), np.int64)
        self.rows = 0
        self.failed: Counter[str] = Counter()
        self.examples: dict[str, list[dict[str, Any]]] = {}
        self.labels = np.zeros(2)  # valid labels: count, sum
        self.logits = np.zeros(3)  # valid logits: count, sum, sum of squares
        self.readings = np.zeros(2)  # while all lie in [0, 1]: NLL as logits, and as probabilities
        self.low, self.high = np.inf, -np.inf
        self.versions: Counter[str] = Counter()
        self._items: list[pa.Table] = []
        self._bad: list[np.ndarray] = []  # row numbers
        self._id_hashes: list[np.ndarray] = []
        self._row_hashes: list[np.ndarray] = []

    def add(self, batch: pa.RecordBatch, hashes: Mapping[str, np.ndarray]) -> None:
        """Count one batch in; ``hashes`` has at least those of the columns :data:`HASHED`."""
        failing = failures(batch, self.checks)
        for check in self.checks:
            if check.code in failing:
                self._note(check, batch, failing[check.code])
        self._count_numbers(batch, failing)
        self._count_names(batch, hashes)
        self.rows += batch.num_rows

    def take_bad_rows(self) -> np.ndarray:
        """The numbers of the rows that fail a row check; one that fails several is there as often."""
        return taken(self._bad, np.int64)

    def take_id_hashes(self) -> np.ndarray:
        """Hashes of all event ids; handed over, not kept."""
        return taken(self._id_hashes)

    def take_row_hashes(self) -> np.ndarray:
        """Hashes of all (user, item, time, label); handed over, not kept."""
        return taken(self._row_hashes)

    def distinct_items(self) -> pa.Table:
        """item_id and its number of rows."""
        if not self._items:
            return pa.table({"item_id": pa.array([], pa.string()), "rows": pa.array([], pa.int64())})
        return merged(self._items).sort_by("item_id")

    def _note(self, check: RowCheck, batch: pa.RecordBatch, failing: np.ndarray) -> None:
        rows = np.flatnonzero(failing)
        self.failed[check.code] += len(rows)
        examples = self.examples.setdefault(check.code, [])
        for row in rows[: self.max_examples - len(examples)]:
            examples.append(example(batch, int(row), self.rows, check.column))
        if len(rows):
            self._bad.append(rows + self.rows)

    def _count_numbers(self, batch: pa.RecordBatch, failing: dict[str, np.ndarray]) -> None:
        if "label_not_binary" in failing:
            label = batch.column("label").fill_null(0).to_numpy(zero_copy_only=False)
            label = without(label, [failing["label_null"], failing["label_not_binary"]])
            self.labels += (len(label), float(label.sum()))
        logit = logits(batch, failing, self.logit_limit)
        if logit is not None and len(logit):
            self.logits += (len(logit), float(logit.sum()), float(logit @ logit))
            self.low, self.high = min(self.low, float(logit.min())), max(self.high, float(logit.max()))
            if self.low >= 0 and self.high <= 1 and "logit" in batch.schema.names:
                self.readings += both_readings(batch, failing)

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
                if entry["values"] is not None:  # rows that name none may be of any
                    self._count_version(short(str(entry["values"])), entry["counts"])
        if "event_id" in names:
            ids = batch.column("event_id")
            found = hashes["event_id"]
            self._id_hashes.append(found[flags(ids.is_valid())] if ids.null_count else found)
        if set(IDENTITY) <= set(names):
            self._row_hashes.append(combined_hashes(*(hashes[name] for name in IDENTITY)))

    def _count_version(self, name: str, count: int) -> None:
        known = name in self.versions or len(self.versions) < MAX_VERSIONS
        self.versions[name if known else "(others)"] += count


def item_counts(items: pa.Array) -> pa.Table:
    """item_id and its number of rows in one batch."""
    counts = items.value_counts()
    return pa.table({"item_id": counts.field("values"), "rows": counts.field("counts")})


def combined_hashes(*columns: np.ndarray) -> np.ndarray:
    """One hash per row over the hashes of several columns."""
    combined = np.zeros(len(columns[0]), np.uint64)
    for hashes in columns:
        combined = mix(combined ^ hashes)
    return combined


def logits(batch: pa.RecordBatch, failing: dict[str, np.ndarray], limit: float) -> np.ndarray | None:
    """The plausible logits of a batch, also where the log holds probabilities."""
    for column in ("logit", "probability"):
        masks = [mask for code, mask in failing.items() if code.startswith(f"{column}_")]
        if len(masks) < 2:  # absent, or of a wrong type: then only its nulls were looked for
            continue
        values = without(batch.column(column).fill_null(0.0).to_numpy(zero_copy_only=False), masks)
        if column == "probability":
            values = np.clip(values, 1e-6, 1 - 1e-6)
            values = np.clip(np.log(values / (1 - values)), -limit, limit)
        good: np.ndarray = values
        return good
    return None


def both_readings(batch: pa.RecordBatch, failing: dict[str, np.ndarray]) -> tuple[float, float]:
    """The NLL of the labels where the column ``logit`` holds logits, and where it holds probabilities."""
    masks = [mask for code, mask in failing.items() if code.startswith(("label_", "logit_"))]
    if "label_not_binary" not in failing:
        return 0.0, 0.0
    label, score = (
        without(batch.column(name).fill_null(0).to_numpy(zero_copy_only=False), masks)
        for name in ("label", "logit")
    )
    probability = np.clip(score, 1e-6, 1 - 1e-6)
    as_logits = np.logaddexp(0, score) - label * score
    as_probabilities = -np.where(label == 1, np.log(probability), np.log1p(-probability))
    return float(as_logits.sum()), float(as_probabilities.sum())


def without(values: np.ndarray, masks: list[np.ndarray]) -> np.ndarray:
    """The values that no mask marks; no copy where none is marked."""
    if not any(mask.any() for mask in masks):
        return values
    kept: np.ndarray = values[~np.logical_or.reduce(masks)]
    return kept


def example(batch: pa.RecordBatch, row: int, offset: int, column: str) -> dict[str, Any]:
    """One failing row for people: its number and the value, but no id of a user or an event.

    What is kept and published quotes examples; :func:`slc_ops.quality.statistics.with_ids` looks ids up.
    """
    shown: dict[str, Any] = {"row": offset + row}
    if column not in PRIVATE and column in batch.schema.names:
        shown[column] = short(batch.column(column)[row].as_py())
    return shown


def short(value: Any) -> Any:
    """A value for a message: JSON, and never longer than a line.

    >>> short(float("nan")), len(short("x" * 10_000))
    ('nan', 61)
    """
    if value is None or isinstance(value, (bool, int)):
        return value
    text = str(value).removeprefix(MARK)
    return text if len(text) <= 60 else text[:60] + "…"


def merged(parts: list[pa.Table]) -> pa.Table:
    """Counts of the same item added up."""
    table = pa.concat_tables(parts)
    return table.group_by("item_id").aggregate([("rows", "sum")]).rename_columns(["item_id", "rows"])


def taken(parts: list[np.ndarray], kind: DTypeLike = np.uint64) -> np.ndarray:
    """The parts as one array; the list gives them up."""
    whole = np.concatenate(parts) if parts else np.empty(0, kind)
    parts.clear()
    return whole
