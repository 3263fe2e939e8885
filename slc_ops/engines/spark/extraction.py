"""Extract a window on a cluster: executors read the source's files and write the log's parts.

The driver lists the files and reads their footers. A part is written under a temporary name and renamed when
complete, so a repeated task writes the same file again, and a killed one leaves none.
"""

import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from slc_ops.base.additive import Additive
from slc_ops.base.errors import InputError
from slc_ops.base.files import make_directory
from slc_ops.base.parquet import digest_parts, parts_of
from slc_ops.engines.spark.cluster import Task, add_up
from slc_ops.engines.spark.log import frame_of
from slc_ops.engines.spark.parts import (
    InParts,
    PartPull,
    SourcePart,
    Written,
    drop_unfinished,
    empty_part,
    source_parts,
)
from slc_ops.engines.spark.splits import parquet, plan_splits
from slc_ops.engines.spark.validation import Counts, take
from slc_ops.intake import extract
from slc_ops.intake.labels import WAITING
from slc_ops.intake.manifest import WindowManifest
from slc_ops.quality.statistics import RowStatistics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)


@dataclass
class Pulled(Additive):
    """The result of some parts: their files, and the counts of their rows if an observer asks for them."""

    counts: Counts | None
    written: Written


def pulled(pulling: PartPull, logit_limit: float | None, one: SourcePart) -> Pulled:
    """Write one part, and count its rows while they are written."""
    counts = None if logit_limit is None else Counts(pulling.window, logit_limit)
    return Pulled(counts, pulling(one, counts))


def pull(session: "SparkSession", asked: extract.Pull) -> WindowManifest:
    """Extract like :func:`slc_ops.intake.extract.pull`, if possible by executors into a folder of parts."""
    source, settings, window, observer = asked.source, asked.deployment.source, asked.window, asked.observer
    in_parts = observer is None or isinstance(observer, RowStatistics)
    if asked.labels is not None or not isinstance(source, InParts) or not in_parts:
        why = "labels of their own" if asked.labels is not None else f"a source of kind {settings.kind}"
        _log.info("window %s passes through this process: executors cannot read %s", window, why)
        return extract.pull(asked)
    notes: dict[str, Any] = {}
    types = extract.known_types(source, settings, notes)
    parts, directory = source_parts(source), asked.path.absolute()
    make_directory(directory)
    leaves_out = extract.leaves_out(asked.deployment)
    pulling = PartPull(
        source.parts, source.selects, settings, window, leaves_out, asked.erased, types, directory
    )
    found = Pulled(None, Written())
    if parts:
        limit = observer.logit_limit if isinstance(observer, RowStatistics) else None
        task = Task(session.sparkContext.broadcast(parts), None, partial(pulled, pulling, limit))
        found = add_up(session, frame_of(session, parts), task, len(parts), 1)
    written = found.written
    if not written.rows:
        written.files = empty_part(directory, types)
    drop_unfinished(directory)
    here = {part.name for part in parts_of(directory)}
    if here != set(written.files):
        raise InputError(
            f"the cluster wrote {len(written.files)} parts of window {window}, and this process finds "
            f"{len(here)} in {directory}; see that all workers share this path"
        )
    if found.counts is not None and isinstance(observer, RowStatistics):
        splits = plan_splits([parquet(part) for part in parts_of(directory)])
        take(session, splits, found.counts, observer)
    return WindowManifest(
        rows=written.rows,
        digest=written.content.hexdigest(),
        path=asked.path,
        window=window,
        schema={each.name: str(each.type) for each in pq.read_schema(parts_of(directory)[0])},
        source=source.describe(),
        notes=notes | ({WAITING: 0} if leaves_out else {}) | written.notes,
        file_digest=digest_parts(written.files),
    )
