"""Split a log: rows that keep the contract go on, the others lie beside it with their reasons."""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slc_ops.base.files import replacing
from slc_ops.base.parquet import log_writer, open_parquet
from slc_ops.intake.content import value_hashes
from slc_ops.intake.manifest import WindowManifest
from slc_ops.quality.duplicates import later_occurrences, repeated
from slc_ops.quality.passes import batches
from slc_ops.quality.rows import DUPLICATE, RowCheck, failures, row_checks

CLEAN = "clean.parquet"
QUARANTINE = "quarantine.parquet"


def split(manifest: WindowManifest, logit_limit: float, *, keep_clean: bool = True) -> int:
    """Write ``quarantine.parquet`` (with a column ``reason``) and ``clean.parquet``; count the former.

    Without ``keep_clean`` nothing usable is left: a stopped window has no clean log.
    """
    checks = row_checks(manifest.window.start, manifest.window.end, logit_limit)
    directory = manifest.directory
    for name in (QUARANTINE, CLEAN):
        if (directory / name).is_dir():  # what a cluster wrote for other settings
            shutil.rmtree(directory / name)
    return put_aside(
        batches(manifest.path),
        schema_of(manifest.path),
        checks,
        duplicate_rows(manifest),
        directory / QUARANTINE,
        directory / CLEAN if keep_clean else None,
    )


def put_aside(
    rows: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    checks: tuple[RowCheck, ...],
    duplicate: np.ndarray,
    bad_path: Path,
    clean_path: Path | None,
) -> int:
    """Write rows that fail a check, or whose number is in ``duplicate``, to one file, the others to another.

    Answers how many failed.
    """
    offset = quarantined = 0
    with ExitStack() as files:
        bad_log = files.enter_context(parquet(bad_path, schema.append(pa.field("reason", pa.string()))))
        clean_log = None
        if clean_path is not None:
            clean_log = files.enter_context(parquet(clean_path, clean(schema.empty_table()).schema))
        for batch in rows:
            failing = failures(batch, checks)
            failing[DUPLICATE] = np.isin(np.arange(offset, offset + batch.num_rows), duplicate)
            table = pa.Table.from_batches([batch])
            reasons = reason_per_row(failing, batch.num_rows)
            wrong = reasons.is_valid()
            if pc.any(wrong).as_py():
                found = table.append_column("reason", reasons).filter(wrong)
                bad_log.write_table(found)
                quarantined += found.num_rows
            if clean_log is not None:
                clean_log.write_table(clean(table.filter(pc.invert(wrong))))
            offset += batch.num_rows
    return quarantined


def schema_of(path: Path) -> pa.Schema:
    """The columns of a log."""
    with open_parquet(path) as file:
        return file.schema_arrow


@contextmanager
def parquet(path: Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    """A Parquet file that is whole or absent."""
    with replacing(path) as temporary, log_writer(temporary, schema) as writer:
        yield writer


def duplicate_rows(manifest: WindowManifest) -> np.ndarray:
    """Rows whose event_id occurred before."""
    if "event_id" not in manifest.schema:
        return np.empty(0, np.int64)
    with open_parquet(manifest.path) as file:
        ids = file.iter_batches(columns=["event_id"])
        hashes = [value_hashes(batch.column(0).drop_null()) for batch in ids]
    return later_occurrences(manifest.path, "event_id", repeated(np.concatenate(hashes)))


def reason_per_row(failing: dict[str, np.ndarray], rows: int) -> pa.Array:
    """The failed checks of each row, joined by commas; null where none failed.

    >>> reason_per_row({"label_null": np.array([True, False]), "logit_null": np.array([True, False])}, 2)[0]
    <pyarrow.StringScalar: 'label_null,logit_null'>
    """
    reasons: dict[int, str] = {}
    for code, mask in failing.items():
        for row in np.flatnonzero(mask).tolist():
            reasons[row] = f"{reasons[row]},{code}" if row in reasons else code
    return pa.array([reasons.get(row) for row in range(rows)], pa.string())


def clean(rows: pa.Table) -> pa.Table:
    """Rows that passed, with whole-number labels."""
    position = rows.schema.get_field_index("label")
    if position < 0 or not pa.types.is_floating(rows.schema.field(position).type):
        return rows
    return rows.set_column(position, "label", pc.cast(rows.column(position), pa.int64()))
