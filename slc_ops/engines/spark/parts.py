"""Extraction part by part: the worker that reads a part of the source writes the part of the log.

A part is a run of row groups, determined by the files alone; small files share one. The parts of the log have
the order of the source's, so their rows are those of a local extraction, in the same order.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.dataset as ds

from slc_ops.base.additive import Additive
from slc_ops.base.digests import digest_file
from slc_ops.base.files import replacing
from slc_ops.base.hashing import ContentDigest
from slc_ops.base.parquet import part_name
from slc_ops.base.window import Window
from slc_ops.intake.erased import Erased
from slc_ops.intake.extract import in_contract
from slc_ops.intake.labels import without_waiting
from slc_ops.intake.sources.parquet import Parts, SourceFile
from slc_ops.intake.writing import Watcher, write_log
from slc_ops.settings.sources import Mapped

PART_ROWS = 1 << 21


@runtime_checkable
class InParts(Protocol):
    """A source of Parquet files that workers can open, too."""

    parts: Parts

    @property
    def opened(self) -> list[tuple[SourceFile, ds.ParquetFileFragment]]: ...


@dataclass(frozen=True)
class SourcePart:
    """Row groups of files; ``rows`` is their number of rows, including those outside of the window."""

    number: int
    pieces: tuple[tuple[SourceFile, tuple[int, ...]], ...]
    rows: int


def source_parts(source: InParts) -> list[SourcePart]:
    """Return the source in parts of about :data:`PART_ROWS` rows, in row order."""
    found: list[SourcePart] = []
    pieces: list[tuple[SourceFile, tuple[int, ...]]] = []
    rows = 0
    for opened, fragment in source.opened:
        # Workers have another working directory.
        part = opened if source.parts.remote else replace(opened, path=os.path.abspath(opened.path))
        groups: list[int] = []
        for group in fragment.row_groups:
            groups.append(group.id)
            rows += group.num_rows
            if rows >= PART_ROWS:
                found.append(SourcePart(len(found), (*pieces, (part, tuple(groups))), rows))
                pieces, groups, rows = [], [], 0
        if groups:
            pieces.append((part, tuple(groups)))
    if pieces:
        found.append(SourcePart(len(found), tuple(pieces), rows))
    return found


@dataclass
class Written(Additive):
    """Parts of a log: their rows, the digests of their content and bytes, and their notes."""

    rows: int = 0
    content: ContentDigest = field(default_factory=ContentDigest)
    files: dict[str, str] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class PartPull:
    """Extracts parts of a window: writes the rows to ``directory``, and passes them to an observer."""

    parts: Parts
    selects: bool
    settings: Mapped
    window: Window
    leaves_out: bool
    erased: Erased | None
    types: dict[str, pa.DataType]
    directory: Path

    def __call__(self, one: SourcePart, observer: Watcher | None) -> Written:
        """Write a part and return the result; the part has its final name at the end, if it has any row."""
        path = self.directory / part_name(one.number)
        notes: dict[str, Any] = {}
        with replacing(path) as temporary:
            content, _ = write_log(temporary, self.types, self._rows(one, notes), observer)
            digest = digest_file(temporary)
        counted = {name: count for name, count in notes.items() if isinstance(count, int)}
        rows = content.rows
        if not rows:
            path.unlink()
        return Written(rows, content, {path.name: digest} if rows else {}, counted)

    def _rows(self, one: SourcePart, notes: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        """Yield the window's rows in one part of the source."""
        batches = (
            batch
            for part, groups in one.pieces
            for batch in self.parts.batches(part, self.parts.groups(part, groups))
        )
        rows = in_contract(batches, self.settings, self.window, notes, selects=self.selects)
        if self.leaves_out:
            rows = without_waiting(rows, notes)
        return rows if not self.erased else self.erased.without(rows)


def empty_part(directory: Path, types: dict[str, pa.DataType]) -> dict[str, str]:
    """Write the only part of a window without rows; return its name and digest."""
    path = directory / part_name(0)
    with replacing(path) as temporary:
        write_log(temporary, types, ())
        digest = digest_file(temporary)
    return {path.name: digest}


def drop_unfinished(directory: Path) -> None:
    """Remove the temporary files of killed workers from a folder of parts.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in (part_name(0), f".{part_name(1)}.9d7f0ab2.parquet"):
    ...     (folder / name).touch()
    >>> drop_unfinished(folder)
    >>> [path.name for path in folder.iterdir()]
    ['part-00000.parquet']
    """
    for left in directory.glob(".part-*"):
        left.unlink(missing_ok=True)
