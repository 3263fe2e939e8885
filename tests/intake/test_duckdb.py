"""A DuckDB file as a read-only source: a table or a query."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slc_ops.base.errors import InputError, SlcError, SourceUnavailable
from slc_ops.intake.extract import extract
from slc_ops.intake.manifest import WindowManifest
from slc_ops.intake.sources.bounds import Patience
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.sources import DuckdbSource, LakeSource
from tests.intake.conftest import WEEK

QUERY = "SELECT * FROM answers WHERE event_time >= :window_start AND event_time < :window_end"


@pytest.fixture
def file(tmp_path: Path, rows: pa.Table, later_rows: pa.Table) -> Path:
    both = pa.concat_tables([rows, later_rows])
    with duckdb.connect(tmp_path / "logs.duckdb") as connection:
        connection.register("given", both)
        connection.execute("CREATE TABLE answers AS SELECT * FROM given")
    return tmp_path / "logs.duckdb"


def pulled(home: Path, **settings: Any) -> WindowManifest:
    source = DuckdbSource.model_validate({"path": "logs.duckdb", **settings})
    return extract(Deployment(source=source), WEEK, home / "windows", home=home, refresh=True)


def test_a_table_and_a_query_give_the_same_rows_as_a_lake(tmp_path: Path, file: Path, rows: pa.Table) -> None:
    (tmp_path / "lake").mkdir()
    pq.write_table(rows, tmp_path / "lake" / "a.parquet")
    lake = extract(Deployment(source=LakeSource(path="lake")), WEEK, tmp_path / "lw", home=tmp_path)
    assert pulled(tmp_path, table="answers").digest == lake.digest
    assert pulled(tmp_path, table="main.answers").digest == lake.digest
    assert pulled(tmp_path, query=QUERY).digest == lake.digest


def test_an_unchanged_file_is_not_read_again(tmp_path: Path, file: Path) -> None:
    before = pulled(tmp_path, table="answers")
    assert pulled(tmp_path, table="answers") == before
    with duckdb.connect(file) as connection:
        connection.execute("DELETE FROM answers WHERE label = 0")
    assert pulled(tmp_path, table="answers").rows < before.rows


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM answers WHERE BOUNDS RETURNING *",
        "SELECT * FROM answers WHERE BOUNDS; DROP TABLE answers",
        "COPY (SELECT * FROM answers WHERE BOUNDS) TO 'stolen.csv'",
        "SELECT * FROM read_csv('/etc/passwd') WHERE BOUNDS",
        "ATTACH 'other.duckdb' -- BOUNDS",
        "SELECT * FROM nothing WHERE BOUNDS",
    ],
)
def test_a_query_may_only_read_its_own_file(
    tmp_path: Path, file: Path, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = file.read_bytes()
    with pytest.raises(SlcError) as refusal:
        pulled(tmp_path, query=query.replace("BOUNDS", ":window_start < :window_end"))
    assert "\n" not in str(refusal.value)
    assert file.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs.duckdb", "windows"]
    assert list((tmp_path / "windows").iterdir()) == []


def test_an_endless_query_is_stopped(tmp_path: Path, file: Path) -> None:
    query = (
        "SELECT count(*) AS event_id, now() AS event_time FROM range(10000000) a, range(10000000) b "
        "WHERE a.range % 7 = b.range % 11 AND :window_start < :window_end"
    )
    with pytest.raises(SourceUnavailable, match="limit_seconds: 1"):
        pulled(tmp_path, query=query, limit_seconds=1)


def test_a_missing_or_invalid_file_is_named(tmp_path: Path, file: Path) -> None:
    with pytest.raises(InputError, match=r"there is no DuckDB file .*gone\.duckdb"):
        pulled(tmp_path, path="gone.duckdb", table="answers")
    file.write_bytes(b"no database" * 1000)
    with pytest.raises(SourceUnavailable, match="cannot be opened"):
        pulled(tmp_path, table="answers")
    with pytest.raises(ValueError, match="either a table or a query"):
        DuckdbSource(path="logs.duckdb")


def test_the_time_limit_is_per_query_not_per_batch() -> None:
    """Batches of an embedded database arrive quickly; the time of their consumer does not count."""

    def slowly() -> Iterator[int]:
        for k in range(20):
            time.sleep(0.02)
            yield k

    for whole in (False, True):
        patience = Patience(0.2, whole=whole)
        for _ in patience.with_each(slowly()):
            assert not patience.is_over()
        assert patience.is_over() == whole


def test_text_times_are_compared_as_documented(tmp_path: Path, rows: pa.Table, file: Path) -> None:
    with duckdb.connect(file) as connection:
        connection.execute(
            "CREATE TABLE texts AS SELECT * REPLACE (strftime(event_time AT TIME ZONE 'UTC', "
            "'%Y-%m-%dT%H:%M:%S.%fZ') AS event_time) FROM answers"
        )
    query = (
        "SELECT * FROM texts WHERE event_time::timestamptz >= :window_start "
        "AND event_time::timestamptz < :window_end"
    )
    assert pulled(tmp_path, query=query).rows == rows.num_rows
