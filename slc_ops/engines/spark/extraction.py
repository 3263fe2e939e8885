"""Extract a window on a cluster: executors read the source's files and write the log's parts.

The driver lists the files and reads their footers. A part is written under a temporary name and renamed when
complete, so a repeated task writes the same file again, and a killed one leaves none.
"""

import logging
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from slc_ops.base.errors import InputError
from slc_ops.base.files import make_directory
from slc_ops.base.parquet import digest_parts, parts_of
from slc_ops.engines.spark.gathering import ANSWER, Both, gathered
from slc_ops.engines.spark.parts import (
    InParts,
    PartPull,
    Written,
    drop_unfinished,
    empty_part,
    source_parts,
)
from slc_ops.engines.spark.validation import partwise_of, take
from slc_ops.intake import extract
from slc_ops.intake.labels import WAITING
from slc_ops.intake.manifest import WindowManifest
from slc_ops.quality.statistics import RowStatistics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)


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
    show = PartPull(
        source.parts, source.selects, settings, window, leaves_out, asked.erased, types, directory
    )
    partwise = partwise_of(observer) if isinstance(observer, RowStatistics) else None
    found: dict[int, Any] = {ANSWER: Both(None, Written())}
    if parts:
        found = gathered(session, parts, show, partwise, sum(part.rows for part in parts))
    written: Written = found[ANSWER].other
    if not written.rows:
        written.files = empty_part(directory, types)
    drop_unfinished(directory)
    here = {part.name for part in parts_of(directory)}
    if here != set(written.files):
        raise InputError(
            f"the cluster wrote {len(written.files)} parts of window {window}, and this process finds "
            f"{len(here)} in {directory}; see that all workers share this path"
        )
    if isinstance(observer, RowStatistics):
        take(observer, found)
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
