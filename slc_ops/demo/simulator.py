"""The simulated platform as a source of any week, without files."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from slc_ops.base.digests import digest_json
from slc_ops.base.errors import SettingsError
from slc_ops.base.lineage import Data
from slc_ops.base.window import WEEK, Window
from slc_ops.demo.population import Platform, monday, week_of_rows
from slc_ops.intake.sources import Source
from slc_ops.settings.sources import SimulatorSource

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Simulation(Source):
    """Weeks drawn on demand; the same settings always give the same rows."""

    def __init__(self, source: SimulatorSource, home: Path, window: Window) -> None:
        self.source, self.window = source, window
        self.start = monday(source.start)
        try:
            self.platform = Platform(**source.platform)
        except TypeError as error:
            raise SettingsError(f"the simulator's platform: {error}") from None

    @staticmethod
    def datasets(source: SimulatorSource, home: Path) -> list[Data]:
        """Return the data set names for lineage."""
        return [Data("slc_ops", source.kind)]

    def describe(self) -> dict[str, Any]:
        """Return the settings of the simulation."""
        return {"kind": "simulator", "start": self.source.start, "platform": self.platform.as_dict()}

    def fingerprint(self) -> str | None:
        """Return the digest of the settings, which determine the content."""
        return digest_json([self.source.start, self.platform.as_dict()])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the weeks that overlap the window, from the platform's start on."""
        first = max(0, (self.window.start - self.start) // WEEK)
        last = (self.window.end - self.start - timedelta(microseconds=1)) // WEEK
        for week in range(first, last + 1):
            start_us = (self.start + week * WEEK - EPOCH) // timedelta(microseconds=1)
            yield from week_of_rows(self.platform, week, start_us).to_batches(max_chunksize=1 << 16)
