"""Where logs come from. A source hands over the batches of one window with its own columns and types."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from slc_ops.base.window import Window
from slc_ops.intake.dataset_names import DatasetName
from slc_ops.settings.sources import READERS, Mapped


class Source(Protocol):
    """What extraction asks of a source about one window. It looks around once and remembers what it saw."""

    selects: bool
    """Whether the source itself says which rows are the window's. Then a row with a time outside of the
    window is kept and validated; otherwise extraction chooses the rows by their time."""

    def describe(self) -> dict[str, Any]:
        """Where the rows come from, for the manifest, with the version of a table; no secrets."""

    def fingerprint(self) -> str | None:
        """What the source looks like without being read; None where that cannot be told."""

    def schemas(self) -> Iterator[tuple[str, pa.Schema]]:
        """Part by part, its name and its columns, where they are known before reading."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """At least the window's rows, in batches of bounded size."""


class Reader(Protocol):
    """What the registry :data:`slc_ops.settings.sources.READERS` names: opens a window of a source."""

    def __call__(self, source: Any, home: Path, window: Window) -> Source:
        """A window of the source; relative paths begin at ``home``."""

    def datasets(self, source: Any, home: Path) -> list[DatasetName]:
        """How lineage calls what the rows are read from."""


def reader_of(source: Mapped) -> Reader:
    """The reader of a kind of source."""
    module, _, name = READERS[type(source)].partition(":")
    reader: Reader = getattr(import_module(module), name)
    return reader


def open_source(source: Mapped, home: Path, window: Window) -> Source:
    """A window of the source that a deployment names; relative paths begin at ``home``."""
    return reader_of(source)(source, home, window)
