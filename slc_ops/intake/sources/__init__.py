"""Where logs come from. A source hands over the batches of one window with its own columns and types."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from slc_ops.base.window import Window
from slc_ops.settings.sources import FilesSource, LakeSource, SimulatorSource, SqlSource


class Source(Protocol):
    """What extraction asks of a source about one window. It looks around once and remembers what it saw."""

    selects: bool
    """Whether the source itself says which rows are the window's. Then a row with a time outside of the
    window is kept and validated; otherwise extraction chooses the rows by their time."""

    def describe(self) -> dict[str, Any]:
        """Where the rows come from, for the manifest; no secrets."""

    def fingerprint(self) -> str | None:
        """What the source looks like without being read; None where that cannot be told."""

    def schemas(self) -> Iterator[tuple[str, pa.Schema]]:
        """Part by part, its name and its columns, where they are known before reading."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """At least the window's rows, in batches of bounded size."""


def open_source(
    settings: LakeSource | SqlSource | FilesSource | SimulatorSource, home: Path, window: Window
) -> Source:
    """A window of the source that a deployment names; relative paths begin at ``home``."""
    if isinstance(settings, LakeSource):
        from slc_ops.intake.sources.lake import Lake

        return Lake(settings, home, window)
    if isinstance(settings, SqlSource):
        from slc_ops.intake.sources.sql import Query

        return Query(settings, home, window)
    if isinstance(settings, FilesSource):
        from slc_ops.intake.sources.files import Files

        return Files(settings, home)
    from slc_ops.intake.sources.simulator import Simulation

    return Simulation(settings, window)
