"""Extraction and validation of a large window: seconds, and peak memory of a process of its own.

Run ``python benchmarks/intake_speed.py [ROWS]`` (default 10 million). Bars: extraction within three times
the copy of the same Parquet file by pyarrow and below 1 GB; validation below 25 s and 2 GB.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

from slc_ops.base.window import Window
from slc_ops.intake.extract import extract
from slc_ops.intake.manifest import WindowManifest
from slc_ops.intake.simulate import simulate
from slc_ops.quality import validate
from slc_ops.settings.deployments import Deployment, LakeSource

WEEK = Window.parse("2026-01-05/2026-01-12")
PARTITIONED = Deployment(source=LakeSource(path="lake", partition={"key": "week", "days": 7}))
FLAT = Deployment(source=LakeSource(path="lake"))


def prepare(home: Path, rows: int) -> None:
    simulate(home / "lake", weeks=1, rows_per_week=rows, users=rows // 50, items=20_000)


def copy_whole(home: Path) -> None:
    pq.write_table(pq.read_table(lake_file(home)), home / "copy.parquet")


def copy_streamed(home: Path) -> None:
    file = pq.ParquetFile(lake_file(home))
    with pq.ParquetWriter(home / "copy.parquet", file.schema_arrow) as writer:
        for batch in file.iter_batches(1 << 17):
            writer.write_batch(batch)


def extract_partitioned(home: Path) -> None:
    extract(PARTITIONED, WEEK, home / "windows", home=home)


def extract_by_time(home: Path) -> None:
    extract(FLAT, WEEK, home / "flat", home=home)


def extract_again(home: Path) -> None:
    extract(PARTITIONED, WEEK, home / "windows", home=home)


def validate_window(home: Path) -> None:
    validate(WindowManifest.read(home / "windows" / WEEK.key), [], PARTITIONED)


def lake_file(home: Path) -> Path:
    return home / "lake" / f"week={WEEK.key}" / "part-0.parquet"


STEPS = (copy_whole, copy_streamed, extract_partitioned, extract_again, extract_by_time, validate_window)


def measured(step: str, home: Path, *arguments: int) -> dict[str, float]:
    """Run one step in a process of its own."""
    command = [sys.executable, __file__, "--step", step, str(home), *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(rows: int) -> None:
    with tempfile.TemporaryDirectory(prefix="slc-ops-bench-") as name:
        home = Path(name)
        measured("prepare", home, rows)  # in a process of its own: a child inherits its parent's peak
        size = lake_file(home).stat().st_size / 2**20
        print(f"{rows:,} rows, {size:,.0f} MB of Parquet")
        results = {}
        for step in STEPS:
            found = results[step.__name__] = measured(step.__name__, home)
            print(
                f"{step.__name__:<22} {found['seconds']:8.2f} s  {found['cpu']:8.2f} s of processor  "
                f"{found['peak_mb']:7.0f} MB peak"
            )
        copy = min(results["copy_whole"]["seconds"], results["copy_streamed"]["seconds"])
        print(f"extraction / copy: {results['extract_partitioned']['seconds'] / copy:.2f}")


if __name__ == "__main__":
    if "--step" in sys.argv:
        begun = time.perf_counter()
        globals()[sys.argv[2]](Path(sys.argv[3]), *map(int, sys.argv[4:]))
        usage = resource.getrusage(resource.RUSAGE_SELF)
        elapsed = time.perf_counter() - begun
        print(
            json.dumps(
                {
                    "seconds": elapsed,
                    "cpu": usage.ru_utime + usage.ru_stime,
                    "peak_mb": usage.ru_maxrss / 1024,
                }
            )
        )
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
