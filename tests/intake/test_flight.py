"""A Flight SQL server over the real protocol, read through ADBC."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slc_ops.base.errors import InputError, SettingsError, SourceUnavailable
from slc_ops.intake.extract import extract
from slc_ops.intake.manifest import WindowManifest
from slc_ops.intake.sources.sql import Query
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.sources import LakeSource, SqlSource
from tests.intake.conftest import WEEK
from tests.intake.flight_server import FlightSqlServer

QUERY = "SELECT * FROM answers WHERE event_time >= :window_start AND event_time < :window_end"


@pytest.fixture(scope="module")
def server(rows: pa.Table, later_rows: pa.Table) -> Iterator[FlightSqlServer]:
    """Two weeks, for one user."""
    with FlightSqlServer(pa.concat_tables([rows, later_rows]), "ann:secret-1") as found:
        yield found
        found.database.close()
        del found.database  # the server itself runs as long as the process


@pytest.fixture(autouse=True)
def _address(server: FlightSqlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGS", f"grpc://ann:secret-1@127.0.0.1:{server.port}")


def pulled(home: Path, **settings: Any) -> WindowManifest:
    source = SqlSource.model_validate({"url_env": "LOGS", "query": QUERY, **settings})
    return extract(Deployment(source=source), WEEK, home / "windows", home=home, refresh=True)


def test_the_window_equals_that_of_a_file_and_its_bounds_are_parameters(
    tmp_path: Path, rows: pa.Table, server: FlightSqlServer
) -> None:
    import pyarrow.parquet as pq

    (tmp_path / "lake").mkdir()
    pq.write_table(rows, tmp_path / "lake" / "rows.parquet")
    file = extract(Deployment(source=LakeSource(path="lake")), WEEK, tmp_path / "of_file", home=tmp_path)
    found = pulled(tmp_path)
    assert (found.rows, found.digest) == (file.rows, file.digest)
    statement, values = server.asked[-1]
    assert statement.endswith("event_time >= ? AND event_time < ?")
    assert values == [WEEK.start, WEEK.end]
    assert "secret" not in str(found.source)


def test_batches_are_split_to_the_rows_per_fetch(tmp_path: Path, rows: pa.Table) -> None:
    source = SqlSource(url_env="LOGS", query=QUERY, batch_rows=100)
    sizes = [batch.num_rows for batch in Query(source, tmp_path, WEEK).batches()]
    assert sum(sizes) == rows.num_rows
    assert max(sizes) == 100


@pytest.mark.parametrize(
    ("address", "query", "kind", "said"),
    [
        (None, QUERY.replace("answers", "nothing"), InputError, "nothing"),
        (None, QUERY.replace("SELECT", "DELETE"), InputError, "must begin with SELECT"),
        (None, QUERY.replace("*", "*, label AS label"), InputError, "a column twice"),
        ("grpc://127.0.0.1:1", QUERY, SourceUnavailable, "failed"),
        ("grpc://bob:other@127.0.0.1:{port}", QUERY, InputError, "refused"),
        ("grpc://ann:secret-1@logs.example:99", QUERY, SettingsError, "in the clear; use grpc"),
        ("nosuchbase://ann:secret-1@host/db", QUERY, SettingsError, "dialect for nosuchbase"),
    ],
    ids=["no-such-table", "no-select", "column-twice", "no-server", "wrong-user", "clear-text", "no-dialect"],
)
def test_errors_are_one_line_without_the_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: FlightSqlServer, address: str | None,
    query: str, kind: type[Exception], said: str,
) -> None:  # fmt: skip
    if address is not None:
        monkeypatch.setenv("LOGS", address.format(port=server.port))
    with pytest.raises(kind) as failed:
        pulled(tmp_path, query=query)
    assert said in str(failed.value)
    assert "\n" not in str(failed.value)
    assert "secret-1" not in str(failed.value)
    assert not list((tmp_path / "windows").glob("[!.]*"))


def test_a_slow_server_times_out(tmp_path: Path, server: FlightSqlServer) -> None:
    server.pause = 2.5
    try:
        with pytest.raises(SourceUnavailable, match=r"TIMEOUT|limit_seconds"):
            pulled(tmp_path, limit_seconds=1)
    finally:
        server.pause = 0.0


def test_a_missing_driver_is_named_with_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slc_ops.intake.sources.adbc.find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"adbc-driver-flightsql.*slc-ops\[warehouse\]"):
        pulled(tmp_path)
