"""Stream converted batches into one Parquet file, a row group at a time."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types as pt

from slc_ops.intake.content import ContentDigest
from slc_ops.intake.contract import ALLOWED_TYPES, cast, common_type
from slc_ops.settings.sources import CONTRACT_COLUMNS

ROW_GROUP = 1 << 18


class LogWriter:
    """Holds back one row group, so that its columns' types are known before the file is begun.

    ``types`` are those known beforehand, from the footers of all files of the window; a column that is
    absent from a batch is null there.
    """

    def __init__(self, path: Path, types: dict[str, pa.DataType]) -> None:
        self.path = path
        self.types = dict(types)
        self.digest = ContentDigest()
        self._waiting: list[pa.RecordBatch] = []
        self._rows_waiting = 0
        self._writer: pq.ParquetWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Take one batch of contract columns."""
        for field in batch.schema:
            known = self.types.get(field.name, pa.null())
            if self._writer is None:
                self.types[field.name] = common_type(field.name, known, field.type)
        self._waiting.append(batch)
        self._rows_waiting += batch.num_rows
        if self._rows_waiting >= ROW_GROUP:
            self._flush()

    def close(self) -> pa.Schema:
        """Write what is left; a window without rows becomes a file without rows."""
        writer = self._flush()
        writer.close()
        return writer.schema

    def abandon(self) -> None:
        """Release the file after an error."""
        if self._writer is not None:
            self._writer.close()

    def _flush(self) -> pq.ParquetWriter:
        writer = self._writer = self._writer or self._open()
        schema = writer.schema
        batches = [self._fit(batch, schema) for batch in self._waiting]
        for batch in batches:
            self.digest.add(batch)
        if batches:
            writer.write_table(pa.Table.from_batches(batches, schema), row_group_size=2 * ROW_GROUP)
        self._waiting, self._rows_waiting = [], 0
        return writer

    def _open(self) -> pq.ParquetWriter:
        fields = []
        for name in CONTRACT_COLUMNS:
            found = self.types.get(name)
            if found is not None:
                fields.append(pa.field(name, pa_type(ALLOWED_TYPES[name][0]) if pt.is_null(found) else found))
        schema = pa.schema(fields)
        repetitive = [
            name for name in schema.names if name not in ("event_id", "event_time", "logit", "probability")
        ]
        return pq.ParquetWriter(
            self.path, schema, compression="zstd", compression_level=1, use_dictionary=repetitive
        )

    def _fit(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        if batch.schema == schema:
            return batch
        columns = []
        for field in schema:
            if field.name not in batch.schema.names:
                columns.append(pa.nulls(batch.num_rows, field.type))
                continue
            values = batch.column(field.name)
            common_type(field.name, field.type, values.type)
            columns.append(cast(field.name, values, field.type))
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def pa_type(name: str) -> pa.DataType:
    """A type by Arrow's own name for it."""
    return pa.timestamp("us", "UTC") if name.startswith("timestamp") else pa.type_for_alias(name)
