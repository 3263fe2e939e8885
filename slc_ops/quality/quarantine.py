"""Split a log: valid rows go to one file, the others to a second one with a column ``reason``."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slc_ops.base.files import replacing
from slc_ops.base.parquet import log_writer
from slc_ops.base.window import Window
from slc_ops.quality.heavy_users import Scaled
from slc_ops.quality.rows import DUPLICATE, failures, row_checks
from slc_ops.rows.reading import with_offsets


@dataclass(frozen=True)
class PutAside:
    """Writes rows that fail a check, or repeat an event_id, to one file and the others to another."""

    window: Window
    logit_limit: float
    seen: np.ndarray | None = None
    """Hashes of event ids of earlier windows."""
    heavy: Scaled | None = None

    def __call__(
        self,
        rows: Iterable[pa.RecordBatch],
        schema: pa.Schema,
        duplicate: np.ndarray,
        bad_path: Path,
        clean_path: Path | None,
    ) -> int:
        """Return the number of failed rows; ``duplicate`` are the positions of rows with a repeated id."""
        checks = row_checks(self.window.start, self.window.end, self.logit_limit, self.seen)
        quarantined = 0
        with ExitStack() as files:
            bad_log = files.enter_context(parquet(bad_path, schema.append(pa.field("reason", pa.string()))))
            clean_log = None
            if clean_path is not None:
                kept = clean(self._weighted(schema.empty_table(), 0)).schema
                clean_log = files.enter_context(parquet(clean_path, kept))
            for offset, batch in with_offsets(rows):
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
                    clean_log.write_table(clean(self._weighted(table, offset).filter(pc.invert(wrong))))
        return quarantined

    def _weighted(self, rows: pa.Table, first: int) -> pa.Table:
        """Return a part of the log, from row ``first`` on, with the weights of heavy users scaled."""
        return rows if self.heavy is None else self.heavy.applied(rows, first)


@contextmanager
def parquet(path: Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    """Open a Parquet file for writing; it appears only when it is complete."""
    with replacing(path) as temporary, log_writer(temporary, schema) as writer:
        yield writer


def reason_per_row(failing: dict[str, np.ndarray], rows: int) -> pa.Array:
    """Return the failed checks of each row, joined by commas; null if none failed.

    >>> reason_per_row({"label_null": np.array([True, False]), "logit_null": np.array([True, False])}, 2)[0]
    <pyarrow.StringScalar: 'label_null,logit_null'>
    """
    reasons: dict[int, str] = {}
    for code, mask in failing.items():
        for row in np.flatnonzero(mask).tolist():
            reasons[row] = f"{reasons[row]},{code}" if row in reasons else code
    return pa.array([reasons.get(row) for row in range(rows)], pa.string())


def clean(rows: pa.Table) -> pa.Table:
    """Return rows that passed, with integer labels."""
    position = rows.schema.get_field_index("label")
    if position < 0 or not pa.types.is_floating(rows.schema.field(position).type):
        return rows
    return rows.set_column(position, "label", pc.cast(rows.column(position), pa.int64()))
