"""Where logs come from. A source hands over the batches of one window with its own columns and types."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from slc_ops.base.window import Window
from slc_ops.settings import sources as settings


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


def open_source(source: settings.AnySource, home: Path, window: Window) -> Source:  # noqa: PLR0911 - one return per kind
    """A window of the source that a deployment names; relative paths begin at ``home``."""
    match source:
        case settings.LakeSource():
            from slc_ops.intake.sources.lake import Lake

            return Lake(source, home, window)
        case settings.DeltaSource():
            from slc_ops.intake.sources.delta import Delta

            return Delta(source, home, window)
        case settings.IcebergSource():
            from slc_ops.intake.sources.iceberg import Iceberg

            return Iceberg(source, home, window)
        case settings.SqlSource():
            from slc_ops.intake.sources.sql import Query

            return Query(source, home, window)
        case settings.DuckdbSource():
            from slc_ops.intake.sources.duckdb import Duckdb

            return Duckdb(source, home, window)
        case settings.FilesSource():
            from slc_ops.intake.sources.files import Files

            return Files(source, home)
        case settings.SimulatorSource():
            # The simulator belongs to the demo, above this package: it is named, not imported.
            simulated: Source = import_module("slc_ops.demo.simulator").Simulation(source, window)
            return simulated
