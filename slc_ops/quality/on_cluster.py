"""Statistics and quarantine of a window where its rows lie: the same rules, computed by executors."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from slc_ops.base.code_version import code_version
from slc_ops.base.files import digest_file, replacing_directory
from slc_ops.base.parquet import digest_parts, drop_unfinished, part_name
from slc_ops.base.window import Window
from slc_ops.intake.manifest import WindowManifest
from slc_ops.quality.duplicates import later
from slc_ops.quality.partwise import IDS, PartwiseStatistics, later_ids
from slc_ops.quality.quarantine import CLEAN, QUARANTINE, put_aside, schema_of
from slc_ops.quality.rows import DUPLICATE, row_checks
from slc_ops.quality.statistics import MAX_EXAMPLES, RowStatistics, Statistics
from slc_ops.rows.engine import Engine
from slc_ops.rows.spark.cluster import check_code, quiet
from slc_ops.rows.spark.engine import SparkEngine
from slc_ops.rows.spark.gathering import (
    ROW_BITS,
    each_group,
    gathered,
    keyed_rows,
    show_stored,
    stored_batches,
)
from slc_ops.rows.spark.splits import Split

_PLACES = "number long, row long"


def show(engine: Engine, path: Path, rows: RowStatistics) -> None:
    """Show a stored log to the statistics, by executors."""
    assert isinstance(engine, SparkEngine)  # noqa: S101 - there are two engines
    splits = engine.splits(path)
    if splits:
        total = sum(split.rows for split in splits)
        rows.take(gathered(engine.session, splits, show_stored, rows.partwise, total))


@dataclass
class PutAside:
    """What was written of some parts: how many rows were put aside, and the digests of the clean parts."""

    quarantined: int
    clean: dict[str, str]

    def add(self, other: "PutAside") -> None:
        """Take up further parts."""
        self.quarantined += other.quarantined
        self.clean |= other.clean


def split(
    engine: Engine, manifest: WindowManifest, now: Statistics, logit_limit: float, *, keep_clean: bool
) -> tuple[int, str]:
    """Like :func:`slc_ops.quality.quarantine.split`, in folders of parts; and the clean rows' digest."""
    assert isinstance(engine, SparkEngine)  # noqa: S101 - there are two engines
    session, splits = engine.session, engine.splits(manifest.path)
    places = session.range(len(splits)).selectExpr("id as number", "-1L as row")
    partwise = PartwiseStatistics(manifest.window, logit_limit, MAX_EXAMPLES)
    if now.failed[DUPLICATE]:
        total = sum(each.rows for each in splits)
        keyed = keyed_rows(session, splits, show_stored, partwise, total).where(f"kind = {IDS}")
        with quiet():
            places = places.union(keyed.groupBy("bucket").applyInArrow(later_places, _PLACES))
    directory = manifest.directory.absolute()
    names = (QUARANTINE, CLEAN) if keep_clean else (QUARANTINE,)
    with ExitStack() as folders:
        for name in names:
            if (directory / name).is_file():  # what one process wrote for other settings
                (directory / name).unlink()
        bad, *clean = [folders.enter_context(replacing_directory(directory / name)) for name in names]
        shared = session.sparkContext.broadcast(splits)
        work = PartSplit(shared, manifest.window, logit_limit, bad, clean[0] if clean else None)
        found: PutAside = each_group(session, places, work, len(splits))
        for folder in (bad, *clean):
            drop_unfinished(folder)
    return found.quarantined, digest_parts(found.clean) if keep_clean else ""


def later_places(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
    """A task: part and row of the ids that occur at an earlier position, in another span."""
    position = later_ids(rows)["position"].to_numpy()
    return pa.table({"number": position >> ROW_BITS, "row": position & (1 << ROW_BITS) - 1})


@dataclass(frozen=True)
class PartSplit:
    """Splits one part of a log; the rows of ``places`` are the later occurrences of ids of other spans."""

    splits: Any
    window: Window
    logit_limit: float
    bad: Path
    clean: Path | None
    code: str = field(default_factory=code_version)

    def __call__(self, number: int, places: pa.Table) -> PutAside:
        """Write the part's files; of the rows put aside only where there are any."""
        check_code(self.code)
        split: Split = self.splits.value[number]
        name = part_name(number)
        own = [np.flatnonzero(mask) + first for first, mask in self._later_in_spans(split)]
        duplicate = np.concatenate([places["row"].to_numpy(), *own])
        count = put_aside(
            stored_batches(split),
            schema_of(Path(split.path)),
            row_checks(self.window.start, self.window.end, self.logit_limit),
            duplicate,
            self.bad / name,
            None if self.clean is None else self.clean / name,
        )
        if not count and number:
            (self.bad / name).unlink()
        return PutAside(count, {} if self.clean is None else {name: digest_file(self.clean / name)})

    def _later_in_spans(self, split: Split) -> Iterator[tuple[int, np.ndarray]]:
        """What :class:`~slc_ops.quality.partwise.PartStatistics` finds within a span and does not hand on."""
        first = 0
        for batch in stored_batches(split, ["event_id"]):
            ids = batch.column(0)
            mask = np.zeros(len(ids), bool)
            mask[np.asarray(ids.is_valid())] = later(ids.drop_null())
            yield first, mask
            first += len(ids)
