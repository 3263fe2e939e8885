"""Parquet files of a lake or a table, read one after the other in the order of their paths."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from slc_ops.base.threads import made_ahead
from slc_ops.base.window import Window
from slc_ops.intake.contract import repetitive_text, selection
from slc_ops.intake.sources.locations import locate, reading
from slc_ops.settings.sources import Located, Mapped

BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class SourceFile:
    """One file. ``values`` are columns stored outside of it: Hive keys, a table's partition.

    ``fields`` maps the file's columns to their name and type in the table; None: all columns unchanged.
    ``kept`` is a mask of rows that are not deleted; rows beyond its end, or None, are not deleted.
    """

    path: str
    size: int | None
    values: Mapping[str, pa.Scalar] = field(default_factory=dict)
    fields: Mapping[str, pa.Field] | None = None
    kept: np.ndarray | None = None

    def columns(self, schema: pa.Schema) -> list[tuple[pa.Field, str]]:
        """Return the columns to read, each as the source defines it and with its name in the file."""
        if self.fields is None:
            return [(each, each.name) for each in schema]
        known = [(each, self.fields[each.name]) for each in schema if each.name in self.fields]
        return [
            (named.with_type(named.type if in_utc(each.type, named.type) else each.type), each.name)
            for each, named in known
        ]


def in_utc(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Return True when a file's times without a zone are in UTC by the table's schema (INT96 has no zone)."""
    naive = pa.types.is_timestamp(found) and found.tz is None
    return naive and pa.types.is_timestamp(wanted) and wanted.tz is not None


class Parts:
    """The files of a window: footers are read once, row groups without matching rows are skipped.

    With ``inside`` False all row groups are read, because the source itself selects the window's rows.
    """

    def __init__(self, filesystem: pafs.FileSystem, source: Mapped, window: Window, *, inside: bool) -> None:
        self.filesystem, self.source, self.window, self.inside = filesystem, source, window, inside
        self.remote = not isinstance(filesystem, pafs.LocalFileSystem)

    def __getstate__(self) -> dict[str, Any]:
        """Omit the filesystem: the receiver opens it with the credentials of its own environment."""
        return {name: value for name, value in vars(self).items() if name != "filesystem"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        assert isinstance(self.source, Located)  # noqa: S101 - the sources of files are
        self.filesystem, _ = locate(self.source, Path())

    def opened(self, parts: Sequence[SourceFile]) -> list[tuple[SourceFile, ds.ParquetFileFragment]]:
        """Return the files with their footers, without row groups that the statistics exclude."""
        found = []
        for part in parts:
            with reading(part.path, self.filesystem):
                fragment = ds.ParquetFileFormat().make_fragment(
                    part.path, self.filesystem, file_size=part.size
                )
                fragment.ensure_complete_metadata()
                inside = self._inside(part, fragment.physical_schema)
                if inside is not None:
                    fragment = fragment.subset(inside)
            if fragment.num_row_groups:
                found.append((part, fragment))
        return found

    def groups(self, part: SourceFile, numbers: Sequence[int]) -> ds.ParquetFileFragment:
        """Open some row groups of a file, in a process that has not read its footer."""
        with reading(part.path, self.filesystem):
            fragment = ds.ParquetFileFormat().make_fragment(
                part.path, self.filesystem, row_groups=list(numbers), file_size=part.size
            )
            fragment.ensure_complete_metadata()
        return fragment

    def schema(self, part: SourceFile, fragment: ds.ParquetFileFragment) -> pa.Schema:
        """Return the columns of a file and those stored outside of it."""
        fields = [each for each, _ in part.columns(fragment.physical_schema)]
        known = {each.name for each in fields}
        outside = [pa.field(name, each.type) for name, each in part.values.items() if name not in known]
        return pa.schema([*fields, *outside])

    def batches(self, part: SourceFile, fragment: ds.ParquetFileFragment) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file with the columns of the log."""
        columns = part.columns(fragment.physical_schema)
        chosen = selection([each.name for each, _ in columns], self.source.columns).values()
        wanted = {inner: each for each, inner in columns if each.name in chosen}
        named = pa.schema([each for each, _ in columns])
        repetitive = repetitive_text(named, self.source.columns)
        with reading(part.path, self.filesystem), self.filesystem.open_input_file(part.path) as stream:
            file = pq.ParquetFile(
                stream,
                metadata=fragment.metadata,
                pre_buffer=self.remote,
                read_dictionary=[inner for each, inner in columns if each.name in repetitive],
                coerce_int96_timestamp_unit="us",
            )
            lengths = [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]
            begins = [0, *accumulate(lengths)]
            for group in fragment.row_groups:  # one at a time: memory holds one group, not the file
                row = begins[group.id]
                batches = file.iter_batches(BATCH_ROWS, row_groups=[group.id], columns=list(wanted))
                with closing(made_ahead(batches)) as ahead:
                    for batch in ahead:
                        yield self._as_named(part, batch, wanted, row)
                        row += batch.num_rows

    def _as_named(
        self, part: SourceFile, batch: pa.RecordBatch, wanted: Mapping[str, pa.Field], row: int
    ) -> pa.RecordBatch:
        if part.fields is not None:
            values = {wanted[name].name: batch.column(name) for name in batch.schema.names}
            for each in wanted.values():
                if in_utc(values[each.name].type, each.type):
                    values[each.name] = pc.assume_timezone(values[each.name], "UTC")
            batch = pa.record_batch(values)
        for name in selection(part.values, self.source.columns).values():
            if name not in batch.schema.names:
                batch = batch.append_column(name, pa.repeat(part.values[name], batch.num_rows))
        if part.kept is not None:
            kept = part.kept[row : row + batch.num_rows]
            batch = batch.filter(
                pa.array(np.pad(kept, (0, batch.num_rows - len(kept)), constant_values=True))
            )
        return batch

    def _inside(self, part: SourceFile, schema: pa.Schema) -> ds.Expression | None:
        """Return a filter on the event time; it keeps rows without a time, to be counted."""
        columns = part.columns(schema)
        name = selection([each.name for each, _ in columns], self.source.columns).get("event_time")
        if not self.inside or name is None:
            return None
        inner = next(inner for each, inner in columns if each.name == name)
        found = schema.field(inner).type
        if not pa.types.is_timestamp(found) or found.tz is None:
            return None
        time = ds.field(inner)
        start, end = pa.scalar(self.window.start), pa.scalar(self.window.end)
        return ((time >= start) & (time < end)) | time.is_null()
