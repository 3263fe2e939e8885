"""Sources of logs. A source yields the batches of one window with its own columns and types."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa

from slc_ops.base.lineage import Data
from slc_ops.base.window import Window
from slc_ops.settings.sources import READERS, Mapped


class Source(ABC):
    """One window of a source, as extraction uses it. The state is listed once and cached."""

    selects: bool = False
    """True when the source itself selects the window's rows. Then a row with a time outside of the window is
    kept and validated; otherwise extraction filters the rows by time."""

    @abstractmethod
    def __init__(self, source: Any, home: Path, window: Window) -> None:
        """Open a window of the source; paths are relative to ``home``."""

    @abstractmethod
    def datasets(self) -> list[Data]:
        """Return the data sets of the source, for lineage."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the origin of the rows for the manifest, with the version of a table, without secrets."""

    def fingerprint(self) -> str | None:
        """Return a digest of the source's state without reading rows; None if there is no such digest."""
        return None

    def schemas(self) -> Iterator[tuple[str, pa.Schema]]:
        """Yield name and columns of each part, if they are known before reading."""
        return iter(())

    @abstractmethod
    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield at least the window's rows, in batches of bounded size."""


def open_source(source: Mapped, home: Path, window: Window) -> Source:
    """Open a window of a deployment's source; paths are relative to ``home``."""
    module, _, name = READERS[type(source)].partition(":")
    reader: type[Source] = getattr(import_module(module), name)
    return reader(source, home, window)
