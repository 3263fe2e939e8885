"""The examples of the pages about sources and windows, filled with a log and refreshed as by a new user."""

import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner

from slc_ops.base.files import read_json
from slc_ops.cli import app
from slc_ops.demo.simulate import simulate
from tests.intake.conftest import bucket, s3_endpoint
from tests.pages import ROOT

__all__ = ["bucket", "s3_endpoint"]  # fixtures
pytestmark = pytest.mark.slow
PLATFORM = {"users": 120, "items": 20, "rows_per_week": 1500, "seed": 5}
WINDOW = "2026-02-02/2026-02-09"
QUICK = {
    "methods": ["platt", "slc"],
    "link_windows": 2,
    "offset_windows": 2,
    "evidence_windows": 1,
    "lookback_windows": 1,
    "decision": {"replicates": 200},
}
"""Settings that the pages leave alone, for small logs."""


def examples(page: str) -> list[dict[str, Any]]:
    """The YAML blocks of the page."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)]


SOURCES = {block["source"]["kind"]: block["source"] for block in examples("sources.md")}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five weeks of a small platform."""
    out = tmp_path_factory.mktemp("platform") / "lake"
    simulate(out, weeks=5, start="2026-01-05", **PLATFORM)
    return out


@pytest.fixture(scope="module")
def tracking(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One MLflow database for all tests: creating it takes longer than a refresh."""
    return f"sqlite:///{tmp_path_factory.mktemp('mlflow')}/mlflow.db"


@pytest.fixture
def home(tmp_path: Path, tracking: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLC_OPS_HOME", str(tmp_path))
    monkeypatch.setenv("SLC_OPS_DEPLOYMENTS", str(tmp_path / "deployments.yaml"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking)
    return tmp_path


def log(lake: Path) -> pa.Table:
    """All rows of the lake."""
    return pa.concat_tables(pq.read_table(path, partitioning=None) for path in sorted(lake.glob("week=*/*")))


def refreshed(home: Path, name: str, window: str) -> dict[str, Any]:
    """Run the command on the pages; return the plan of the refresh."""
    done = CliRunner().invoke(
        app, ["refresh", "--deployment", name, "--window", window], env={"COLUMNS": "80"}
    )
    assert done.exit_code == 0, f"{done.output}\n{done.exception!r}"
    (plan,) = (home / "refreshes" / name / window[:10]).glob("*/plan.json")
    return dict(read_json(plan))


Fill = Callable[[Path, Path, dict[str, Any], pytest.FixtureRequest], None]


def as_lake(home: Path, lake: Path, source: dict[str, Any], _: pytest.FixtureRequest) -> None:
    shutil.copytree(lake, home / source["path"])


def as_delta(home: Path, lake: Path, source: dict[str, Any], request: pytest.FixtureRequest) -> None:
    from deltalake import write_deltalake

    request.getfixturevalue("bucket")
    source["endpoint"] = endpoint = request.getfixturevalue("s3_endpoint")
    options = {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
    write_deltalake(source["path"], log(lake), storage_options=options)


def as_iceberg(home: Path, lake: Path, source: dict[str, Any], _: pytest.FixtureRequest) -> None:
    from pyiceberg.catalog.sql import SqlCatalog

    source["properties"] = {"type": "sql", "uri": "sqlite:///catalogue.db"}
    place = {"uri": f"sqlite:///{home}/catalogue.db", "warehouse": f"file://{home}/tables"}
    catalogue, rows = SqlCatalog(source["catalog"], **place), log(lake)
    catalogue.create_namespace(source["table"].partition(".")[0])
    catalogue.create_table(source["table"], schema=rows.schema).append(rows)


def as_sql(home: Path, lake: Path, source: dict[str, Any], request: pytest.FixtureRequest) -> None:
    rows = log(lake)
    request.getfixturevalue("monkeypatch").setenv(source["url_env"], "sqlite:///logs.db")
    with sqlite3.connect(home / "logs.db") as database:
        database.execute(f"create table answers ({', '.join(rows.column_names)})")
        values = [
            [v.isoformat(sep=" ") if k == "event_time" else v for k, v in row.items()]
            for row in rows.to_pylist()
        ]
        database.executemany(f"insert into answers values ({', '.join('?' * rows.num_columns)})", values)  # noqa: S608


def as_duckdb(home: Path, lake: Path, source: dict[str, Any], _: pytest.FixtureRequest) -> None:
    import duckdb

    with duckdb.connect(home / source["path"]) as database:
        database.register("given", log(lake))
        database.execute(f"create table {source['table']} as select * from given")  # noqa: S608


def as_files(home: Path, lake: Path, source: dict[str, Any], _: pytest.FixtureRequest) -> None:
    (home / "exports").mkdir()
    with pa.CompressedOutputStream(str(home / "exports" / "all.csv.gz"), "gzip") as stream:
        pacsv.write_csv(log(lake), stream)


def as_simulator(home: Path, lake: Path, source: dict[str, Any], _: pytest.FixtureRequest) -> None:
    source["platform"] = PLATFORM


FILLED: dict[str, Fill] = {
    "lake": as_lake, "delta": as_delta, "iceberg": as_iceberg, "sql": as_sql, "duckdb": as_duckdb,
    "files": as_files, "simulator": as_simulator,
}  # fmt: skip


def test_every_example_is_run() -> None:
    assert set(FILLED) == set(SOURCES)


@pytest.fixture(scope="module")
def rows_of_the_window(lake: Path) -> int:
    return pq.read_metadata(lake / f"week={WINDOW[:10]}" / "part-0.parquet").num_rows


@pytest.mark.parametrize("kind", sorted(FILLED))
def test_the_example_of_a_source_registers_a_version(
    home: Path, lake: Path, kind: str, rows_of_the_window: int, request: pytest.FixtureRequest
) -> None:
    source = dict(SOURCES[kind])
    FILLED[kind](home, lake, source, request)
    (home / "deployments.yaml").write_text(
        yaml.safe_dump({"deployments": {kind: {"source": source, **QUICK}}})
    )
    refreshed(home, kind, WINDOW)
    manifest = read_json(home / "windows" / kind / WINDOW[:10] / "manifest.json")
    assert manifest["rows"] == rows_of_the_window
    assert manifest["source"]["kind"] == kind


def settle(home: Path, number: int, name: str) -> None:
    """The single deployment of a block on the page about the log and its windows."""
    entry = examples("log.md")[number]["deployments"][name]
    entry = {**QUICK, **entry}
    (home / "deployments.yaml").write_text(yaml.safe_dump({"deployments": {name: entry}}))


def test_the_example_of_daily_windows_in_a_zone_is_refreshed(home: Path, lake: Path) -> None:
    settle(home, 0, "shop")
    shutil.copytree(lake, home / "lake" / "shop")
    plan = refreshed(home, "shop", "2026-02-01/2026-02-02")
    assert plan["window"]["start"] == "2026-01-31T23:00:00+00:00"
    for command in (["status"], ["history", "--deployment", "shop"]):
        shown = CliRunner().invoke(app, command, env={"COLUMNS": "80"})
        assert shown.exit_code == 0, shown.output
        if command == ["status"]:
            assert "2026-02-01/2026-02-02" in shown.output
        assert "T23:00" not in shown.output


def test_the_example_of_four_weeks_is_refreshed(home: Path) -> None:
    settle(home, 0, "insurance")
    simulate(home / "lake" / "claims", weeks=16, start="2026-01-05", **{**PLATFORM, "rows_per_week": 400})
    assert (
        refreshed(home, "insurance", "2026-03-30/2026-04-27")["window"]["end"] == "2026-04-27T00:00:00+00:00"
    )


def test_the_examples_of_late_labels_are_refreshed(home: Path) -> None:
    settle(home, 1, "adverts")
    simulate(home / "parts", weeks=5, start="2026-01-05", label_delay="3d", **PLATFORM)
    shutil.move(home / "parts" / "predictions", home / "lake" / "served")
    for path in sorted((home / "parts" / "labels").rglob("*.parquet")):
        rows = pq.read_table(path, partitioning=None)
        names = {"label": "clicked", "event_time": "clicked_at"}
        target = home / "lake" / "outcomes" / path.parent.name / path.name
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows.rename_columns([names.get(name, name) for name in rows.column_names]), target)
    refreshed(home, "adverts", WINDOW)

    settle(home, 1, "pupils")
    simulate(home / "lake" / "answers", weeks=5, start="2026-01-05", **PLATFORM)
    refreshed(home, "pupils", WINDOW)
