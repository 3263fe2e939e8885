"""Statistics of one pass over a window: all values for the suite, small enough to keep for years."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.base.digests import digest_json
from slc_ops.base.files import replacing, stored_under, understanding, write_json
from slc_ops.base.parquet import read_parquet, stored_batches, write_parquet
from slc_ops.base.window import Window, day_start
from slc_ops.intake.contract import ALLOWED_TYPES
from slc_ops.intake.manifest import WindowManifest
from slc_ops.quality.event_ids import keep_ids
from slc_ops.quality.heavy_users import Pairs
from slc_ops.quality.passes import HOUR, MAX_EXAMPLES, Pass, short, taken
from slc_ops.quality.rows import DUPLICATE
from slc_ops.rows.engine import LOCAL, Engine
from slc_ops.rows.reading import with_offsets
from slc_ops.rows.stored import later_occurrences, repeated

FILE = "statistics.json"
ITEMS = "items.parquet"
VERSION = 6


@dataclass(frozen=True)
class Statistics:
    """Counts, moments and examples of one window. ``failed`` counts rows per check."""

    key: str
    window: dict[str, str]
    rows: int
    types: dict[str, str]
    failed: dict[str, int]
    failed_rows: int
    examples: dict[str, list[dict[str, Any]]]
    label_rate: float | None
    logit_mean: float | None
    logit_sd: float | None
    logit_low: float | None
    logit_high: float | None
    nll_as_logits: float | None
    nll_as_probabilities: float | None
    label_misfit: float | None
    """Mean NLL of the labels by the frozen model, minus the mean NLL that the model expects."""
    label_misfit_error: float | None
    """Its standard error."""
    items: int
    repeated_rows: int
    silent_hours: int
    rows_by_day: list[int]
    versions: dict[str, int] = field(default_factory=dict)

    def summary(self) -> dict[str, Any]:
        """Return the statistics for the verdict's readers."""
        left_out = ("key", "window", "examples", "types")
        return {name: value for name, value in asdict(self).items() if name not in left_out}


def statistics_of(manifest: WindowManifest, logit_limit: float, engine: Engine = LOCAL) -> Statistics:
    """Return a window's statistics, computed once per content and cached beside the window.

    Usually extraction has computed them; the rows are read if it had no observer, or another limit.
    """
    path = manifest.directory / FILE
    if known := stored_under(path, key_of(manifest, logit_limit)):
        with understanding(path):
            return Statistics(**known)
    rows = RowStatistics(manifest.window, logit_limit)
    engine.show(manifest.path, rows)
    return rows.finish(manifest)


def key_of(manifest: WindowManifest, logit_limit: float) -> str:
    """Return a digest of all inputs of the statistics: the code, the content, and the one setting."""
    return digest_json([VERSION, manifest.digest, manifest.window.as_dict(), logit_limit])


class RowStatistics:
    """Statistics of a window whose rows are added in order, by extraction (as its observer) or from disk."""

    def __init__(self, window: Window, logit_limit: float) -> None:
        self.window, self.logit_limit = window, logit_limit
        self._pass = Pass(window, logit_limit)
        self._repeats: Repeats | None = None
        self._pairs: Pairs | None = Pairs()

    def take(self, run: Pass, repeats: "Repeats") -> None:
        """Use a pass and its repeats from elsewhere."""
        self._pass, self._repeats, self._pairs = run, repeats, None

    def add(self, batch: pa.RecordBatch, hashes: Mapping[str, np.ndarray]) -> None:
        """Add rows; ``hashes`` are those of their columns."""
        self._pass.add(batch, hashes)
        if self._pairs is not None:
            self._pairs.add(batch, hashes)

    def finish(self, manifest: WindowManifest) -> Statistics:
        """Store the statistics beside the window. Rows are read only if event ids seem to repeat."""
        repeats = self._repeats or repeats_of(self._pass, manifest)
        found, items = summed_up(self._pass, repeats, manifest)
        with replacing(manifest.directory / ITEMS) as temporary:
            write_parquet(items, temporary)
        if self._pairs is not None:
            self._pairs.finish(manifest.directory)
        write_json(manifest.directory / FILE, asdict(found))
        return found


def item_ids(directory: Path) -> pa.ChunkedArray:
    """Return the distinct items of a window, as text."""
    return pc.cast(read_parquet(directory / ITEMS, ["item_id"]).column(0), pa.string())


@dataclass(frozen=True)
class Repeats:
    """Repeated event ids, repeated rows (user, item, time, label), and rows that fail any check."""

    ids: int
    failed_rows: int
    rows: int
    examples: list[dict[str, Any]]


def repeats_of(run: Pass, manifest: WindowManifest) -> Repeats:
    """Return a pass's repeats, with duplicate ids verified on the rows."""
    hashes = taken(run.id_hashes)
    duplicates = later_occurrences(manifest.path, repeated(hashes))
    if "event_id" in manifest.schema:
        keep_ids(manifest.directory, manifest.rows, hashes)
    again = taken(run.row_hashes)
    again.sort()
    return Repeats(
        ids=len(duplicates),
        failed_rows=len(np.union1d(taken(run.bad_rows, np.int64), duplicates)),
        rows=int((again[1:] == again[:-1]).sum()),
        examples=[{"row": row} for row in duplicates[:MAX_EXAMPLES].tolist()],
    )


def summed_up(run: Pass, repeats: Repeats, manifest: WindowManifest) -> tuple[Statistics, pa.Table]:
    """Return the pass's statistics, and the items with their rows."""
    n, total, squares = map(float, run.logits)
    mean = total / n if n else None
    misfit, misfit_error = mean_and_error(*map(float, run.misfit))
    items = run.distinct_items()
    shown = {**run.examples, DUPLICATE: repeats.examples}
    found = Statistics(
        key=key_of(manifest, run.logit_limit),
        window=manifest.window.as_dict(),
        rows=run.rows,
        types={name: manifest.schema.get(name, "missing") for name in ALLOWED_TYPES},
        failed={**run.failed, DUPLICATE: repeats.ids},
        failed_rows=repeats.failed_rows,
        examples={code: rows for code, rows in shown.items() if rows},
        label_rate=float(run.labels[1] / run.labels[0]) if run.labels[0] else None,
        logit_mean=mean,
        logit_sd=float(np.sqrt(max(squares / n - mean**2, 0.0))) if mean is not None else None,
        logit_low=run.low if n else None,
        logit_high=run.high if n else None,
        nll_as_logits=float(run.readings[0]) if n else None,
        nll_as_probabilities=float(run.readings[1]) if n else None,
        label_misfit=misfit,
        label_misfit_error=misfit_error,
        items=items.num_rows,
        repeated_rows=repeats.rows,
        silent_hours=longest_silence(run.hours > 0),
        rows_by_day=days(run.hours, manifest.window),
        versions=dict(sorted(run.versions.items())),
    )
    return found, items


def mean_and_error(n: float, total: float, squares: float) -> tuple[float | None, float | None]:
    """Return the mean and its standard error, from sums; None without rows, or where a sum overflowed."""
    if not n or not np.isfinite(squares):
        return None, None
    return total / n, float(np.sqrt(max(squares / n - (total / n) ** 2, 0.0) / n))


def with_ids(examples: Sequence[dict[str, Any]], manifest: WindowManifest) -> list[dict[str, Any]]:
    """Return the examples with the event ids of their rows, for a message; ids are never stored."""
    if "event_id" not in manifest.schema:
        return list(examples)
    ids: dict[int, Any] = {}
    for first, batch in with_offsets(stored_batches(manifest.path, ["event_id"])):
        inside = [each["row"] for each in examples if first <= each["row"] < first + batch.num_rows]
        ids |= {row: short(batch.column(0)[row - first].as_py()) for row in inside}
    return [{"row": each["row"], "event_id": ids[each["row"]], **each} for each in examples]


def days(hours: np.ndarray, window: Window) -> list[int]:
    """Return the rows of each local day of the window, from the rows of each hour.

    >>> days(np.ones(25, int), Window.parse("2026-01-05/2026-01-06T01:00:00Z"))
    [24, 1]
    >>> days(np.ones(47, int), Window.parse("2026-03-28/2026-03-30", "Europe/Berlin"))
    [24, 23]
    """
    starts = [max(day_start(each, window.zone), window.start) for each in window.dates]
    edges = [*((start - window.start) // HOUR for start in starts), len(hours)]
    return [int(hours[first:last].sum()) for first, last in pairwise(edges)]


def longest_silence(hours: np.ndarray) -> int:
    """Return the longest run of hours without a row.

    >>> longest_silence(np.array([True, False, False, True, False]))
    2
    """
    marks = np.flatnonzero(np.concatenate([[True], hours, [True]]))
    return int(np.diff(marks).max() - 1)
