"""Databases: a real PostgreSQL and SQLite, streamed with bound parameters."""

import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slc_ops.base.errors import InputError, SettingsError, SourceUnavailable
from slc_ops.base.window import Window
from slc_ops.intake.extract import extract
from slc_ops.intake.sources import open_source
from slc_ops.intake.sources.drivers import DRIVERS
from slc_ops.intake.sources.sql import Query
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.sources import SqlSource
from tests.intake.conftest import WEEK

QUERY = """
    select id as event_id, at as event_time, pupil as user_id, exercise as item_id,
        right_answer as label, score as logit
    from answers where at >= :window_start and at < :window_end
"""
OPTIONS = DRIVERS["postgresql"].statement
COLUMNS = ("event_id", "event_time", "user_id", "item_id", "label", "logit")


@pytest.fixture
def answers(
    postgres: str, rows: pa.Table, later_rows: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A table of answers in PostgreSQL with its native types."""
    monkeypatch.setenv("LOGS_URL", postgres)
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("drop table if exists answers")
        connection.execute(
            "create table answers (id text, at timestamptz, pupil text, exercise text, right_answer boolean, "
            "score numeric(30, 18))"
        )
        with connection.cursor().copy("copy answers from stdin") as copy:
            for row in pa.concat_tables([rows, later_rows]).select(COLUMNS).to_pylist():
                copy.write_row(
                    [
                        row["event_id"],
                        row["event_time"],
                        row["user_id"],
                        row["item_id"],
                        bool(row["label"]),
                        row["logit"],
                    ]
                )
    yield postgres
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("drop table answers")


def deployment(query: str = QUERY, **settings: object) -> Deployment:
    return Deployment(
        source=SqlSource.model_validate(
            {"query": query, "url_env": "LOGS_URL", "batch_rows": 100, **settings}
        )
    )


@pytest.mark.slow
def test_postgresql_gives_exactly_the_window(tmp_path: Path, rows: pa.Table, answers: str) -> None:
    manifest = extract(deployment(), WEEK, tmp_path)
    found = pq.read_table(manifest.path).sort_by("event_id")
    expected = rows.select(COLUMNS).sort_by("event_id")
    assert found["event_id"].equals(expected["event_id"])
    assert found["event_time"].equals(expected["event_time"])
    assert found["label"].to_pylist() == expected["label"].to_pylist()
    assert found["logit"].to_pylist() == pytest.approx(expected["logit"].to_pylist(), abs=1e-15)


@pytest.mark.slow
def test_rows_are_streamed_in_batches_during_the_query(answers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPTIONS, "adbc.postgresql.batch_size_hint_bytes", "1")
    slowly = QUERY.replace("score as logit", "score as logit, pg_sleep(0.004)::text as group_id")
    batches = open_source(deployment(slowly).source, Path(), WEEK).batches()
    first = next(batches)
    with psycopg.connect(answers) as watcher:
        copies = watcher.execute(
            "select count(*) from pg_stat_activity where state = 'active' and query like 'COPY%'"
        ).fetchone()
    assert copies == (1,)
    assert first.num_rows <= 100
    assert first.num_rows + sum(batch.num_rows for batch in batches) == 500


@pytest.mark.slow
def test_an_aborted_extraction_ends_the_query_on_the_server(
    answers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OPTIONS, "adbc.postgresql.batch_size_hint_bytes", "1")
    batches = open_source(deployment().source, Path(), WEEK).batches()
    next(batches)
    batches.close()  # type: ignore[attr-defined]  # a generator
    with psycopg.connect(answers) as watcher:
        others = "select count(*) from pg_stat_activity where query like '%slc_ops%' and pid != {own}"
        others = others.format(own="pg_backend_pid()")
        for _ in range(300):
            left = watcher.execute(others).fetchone()
            if left == (0,):
                break
            time.sleep(0.1)
    assert left == (0,)


@pytest.mark.slow
def test_arrow_and_python_reads_give_the_same_content(
    tmp_path: Path, answers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the types differ: exact decimals, UUIDs, short floats, nulls."""
    odd = QUERY.replace("pupil as user_id", "md5(pupil)::uuid as user_id, exercise as group_id").replace(
        "score as logit",
        "score as logit, case when id like '%7' then null else score::float4 end as weight",
    )
    found = []
    for query in (QUERY, odd):
        arrow = extract(deployment(query), WEEK, tmp_path / "arrow", refresh=True)
        with monkeypatch.context() as patch:
            patch.setattr(Query, "batches", Query.through_python)
            python = extract(deployment(query), WEEK, tmp_path / "python", refresh=True)
        assert arrow.digest == python.digest
        assert arrow.schema == python.schema
        found.append(arrow.digest)
    assert len(set(found)) == 2


@pytest.mark.slow
def test_another_row_order_gives_the_same_window(tmp_path: Path, answers: str) -> None:
    before = extract(deployment(), WEEK, tmp_path)
    with psycopg.connect(answers, autocommit=True) as connection:
        connection.execute("create table turned as select * from answers order by random()")
        connection.execute("drop table answers; alter table turned rename to answers")
    changed = before.path.stat().st_mtime_ns
    after = extract(deployment(), WEEK, tmp_path, refresh=True)
    assert after.digest == before.digest
    assert after.path.stat().st_mtime_ns == changed


@pytest.mark.slow
def test_late_rows_change_the_window_at_the_next_extraction(tmp_path: Path, answers: str) -> None:
    before = extract(deployment(), WEEK, tmp_path)
    with psycopg.connect(answers, autocommit=True) as connection:
        connection.execute(
            "insert into answers values ('late', '2026-01-11 23:59:59.999999+00', 'u', 'i', true, 0.25)"
        )
    assert extract(deployment(), WEEK, tmp_path) == before
    after = extract(deployment(), WEEK, tmp_path, refresh=True)
    assert after.rows == before.rows + 1
    assert after.digest != before.digest


@pytest.mark.slow
def test_a_lost_connection_leaves_no_partial_window(tmp_path: Path, answers: str) -> None:
    query = QUERY.replace(
        "from answers",
        ", case when id like '%00000300' then pg_terminate_backend(pg_backend_pid()) end from answers",
    )
    with pytest.raises(SourceUnavailable, match=r"terminat|closed"):
        extract(deployment(query), WEEK, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_session_is_read_only(tmp_path: Path, answers: str) -> None:
    with psycopg.connect(answers, autocommit=True) as connection:
        connection.execute(
            "create or replace function wipe() returns int language sql volatile "
            "as 'delete from answers; select 1'"
        )
    query = QUERY.replace("pupil as user_id", "wipe() as user_id")
    with pytest.raises(InputError, match="read-only"):
        extract(deployment(query), WEEK, tmp_path)
    with psycopg.connect(answers) as connection:
        assert connection.execute("select count(*) from answers").fetchone() == (1000,)


@pytest.mark.slow
def test_bounds_are_parameters(tmp_path: Path, answers: str) -> None:
    """The text of a window never reaches the query: the server sees placeholders."""
    shown = QUERY.replace("right_answer as label", "right_answer as label, current_query() as group_id")
    manifest = extract(deployment(shown), WEEK, tmp_path)
    assert pq.read_table(manifest.path)["group_id"].to_pylist()[0].count("2026") == 0


@pytest.mark.slow
def test_times_without_a_zone_require_a_named_zone(tmp_path: Path, answers: str) -> None:
    naive = QUERY.replace("at as event_time", "at at time zone 'Asia/Tokyo' as event_time").replace(
        "where at >= :window_start and at < :window_end",
        "where at at time zone 'Asia/Tokyo' >= :window_start and at at time zone 'Asia/Tokyo' < :window_end",
    )
    with pytest.raises(InputError, match="no time zone"):
        extract(deployment(naive), WEEK, tmp_path / "a")
    named = extract(deployment(naive, naive_time_zone="Asia/Tokyo"), WEEK, tmp_path / "b")
    assert named.digest == extract(deployment(), WEEK, tmp_path / "c").digest


@pytest.mark.slow
def test_an_invalid_query_is_refused_in_one_line(tmp_path: Path, answers: str) -> None:
    with pytest.raises(InputError, match='column "pupl" does not exist') as refusal:
        extract(deployment(QUERY.replace("pupil", "pupl")), WEEK, tmp_path)
    assert "\n" not in str(refusal.value)


@pytest.mark.slow
def test_postgresql_compares_times_that_are_text_as_documented(
    tmp_path: Path, rows: pa.Table, answers: str
) -> None:
    as_text = "to_char(at at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
    with psycopg.connect(answers, autocommit=True) as connection:
        connection.execute(f"alter table answers alter column at type text using {as_text}")
    with pytest.raises(InputError, match="cast times that are text, at::timestamptz >= :window_start"):
        extract(deployment(), WEEK, tmp_path / "refused")
    query = QUERY.replace("where at >=", "where at::timestamptz >=").replace(
        "and at <", "and at::timestamptz <"
    )
    assert extract(deployment(query), WEEK, tmp_path / "cast").rows == rows.num_rows


def test_an_unreachable_database_gives_a_retryable_error(
    tmp_path: Path, unused_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGS_URL", f"postgresql://reader:secret@127.0.0.1:{unused_port}/logs")
    with pytest.raises(SourceUnavailable) as refusal:
        extract(deployment(), WEEK, tmp_path)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("value", [None, "", "no url with secret"])
def test_a_missing_url_is_named_without_showing_secrets(
    tmp_path: Path, value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOGS_URL", raising=False)
    if value is not None:
        monkeypatch.setenv("LOGS_URL", value)
    with pytest.raises(SettingsError, match="LOGS_URL") as refusal:
        extract(deployment(), WEEK, tmp_path)
    assert "secret" not in str(refusal.value)


@pytest.fixture
def sqlite(tmp_path: Path, rows: pa.Table, later_rows: pa.Table, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same answers in SQLite, with times as text."""
    path = tmp_path / "logs.db"
    monkeypatch.setenv("LOGS_URL", "sqlite:///logs.db")
    with sqlite3.connect(path) as connection:
        connection.execute("create table answers (id, at, pupil, exercise, right_answer, score)")
        values = [
            [
                row["event_id"],
                row["event_time"].isoformat(),
                row["user_id"],
                row["item_id"],
                row["label"],
                row["logit"],
            ]
            for row in pa.concat_tables([rows, later_rows]).to_pylist()
        ]
        connection.executemany("insert into answers values (?, ?, ?, ?, ?, ?)", values)
    return path


TEXT_QUERY = QUERY.replace(
    "where at >= :window_start and at < :window_end",
    "where datetime(at) >= datetime(:window_start) and datetime(at) < datetime(:window_end)",
)


def test_sqlite_gives_exactly_the_window(tmp_path: Path, rows: pa.Table, sqlite: Path) -> None:
    manifest = extract(deployment(TEXT_QUERY), WEEK, tmp_path / "w", home=tmp_path)
    assert manifest.rows == rows.num_rows
    assert manifest.source["database"] == f"sqlite:///{sqlite}"


def test_sqlite_compares_times_that_end_in_z_as_documented(
    tmp_path: Path, rows: pa.Table, sqlite: Path
) -> None:
    with sqlite3.connect(sqlite) as connection:
        connection.execute("update answers set at = replace(at, '+00:00', 'Z')")
        (shown,) = connection.execute("select at from answers limit 1").fetchone()
    assert "T" in shown
    assert shown.endswith("Z")
    manifest = extract(deployment(TEXT_QUERY), WEEK, tmp_path / "w", home=tmp_path)
    assert manifest.rows == rows.num_rows


def test_sqlite_is_read_only(tmp_path: Path, sqlite: Path) -> None:
    query = "delete from answers where :window_start < :window_end returning id as event_id, at as event_time"
    with pytest.raises(InputError, match="may only read: not authorized"):
        extract(deployment(query), WEEK, tmp_path / "w", home=tmp_path)


def test_a_missing_sqlite_file_is_not_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGS_URL", "sqlite:///gone.db")
    with pytest.raises(SourceUnavailable, match=r"gone\.db"):
        extract(deployment(TEXT_QUERY), WEEK, tmp_path / "w", home=tmp_path)
    assert not (tmp_path / "gone.db").exists()


def test_mixed_column_types_and_duplicated_names_are_refused(tmp_path: Path, sqlite: Path) -> None:
    with sqlite3.connect(sqlite) as connection:
        connection.execute("update answers set score = 'many' where rowid = 3")
    with pytest.raises(InputError, match="mixed types: float, str"):
        extract(deployment(TEXT_QUERY), WEEK, tmp_path / "w", home=tmp_path)
    twice = TEXT_QUERY.replace("pupil as user_id", "pupil as item_id")
    with pytest.raises(InputError, match="a column twice"):
        extract(deployment(twice), WEEK, tmp_path / "w", home=tmp_path)


def test_extraction_does_not_trim_rows_outside_the_window(
    tmp_path: Path, rows: pa.Table, sqlite: Path
) -> None:
    careless = QUERY.replace("at >= :window_start and at < :window_end", ":window_start < :window_end")
    manifest = extract(deployment(careless), WEEK, tmp_path / "w", home=tmp_path)
    assert manifest.rows == 2 * rows.num_rows


def test_numbers_since_1970_are_bound_as_numbers(tmp_path: Path, rows: pa.Table, sqlite: Path) -> None:
    query = QUERY.replace("at as event_time", "cast(strftime('%s', at) as integer) as event_time").replace(
        "where at >= :window_start and at < :window_end",
        "where cast(strftime('%s', at) as integer) >= :window_start "
        "and cast(strftime('%s', at) as integer) < :window_end",
    )
    manifest = extract(deployment(query, epoch_unit="s"), WEEK, tmp_path / "w", home=tmp_path)
    assert manifest.rows == rows.num_rows


@pytest.mark.slow
def test_an_airflow_connection_names_the_database(
    tmp_path: Path, rows: pa.Table, answers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = answers.split("host=")[1]
    found = {"conn_type": "postgres", "login": "postgres", "schema": "postgres", "host": host}
    monkeypatch.setenv("AIRFLOW_CONN_LOGS", json.dumps(found))
    source = SqlSource(query=QUERY, connection="logs")
    manifest = extract(Deployment(source=source), WEEK, tmp_path)
    assert manifest.rows == rows.num_rows
    with pytest.raises(SettingsError, match="no Airflow connection 'nothing'"):
        extract(Deployment(source=SqlSource(query=QUERY, connection="nothing")), WEEK, tmp_path / "b")


def test_an_empty_result_gives_an_empty_window(tmp_path: Path, sqlite: Path) -> None:
    empty = Window.parse("2025-01-06/2025-01-13")
    manifest = extract(deployment(TEXT_QUERY), empty, tmp_path / "w", home=tmp_path)
    assert manifest.rows == 0
    assert pq.read_table(manifest.path).num_rows == 0
    assert sorted(path.name for path in manifest.directory.iterdir()) == ["log.parquet", "manifest.json"]
