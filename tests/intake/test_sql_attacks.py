"""Queries that would change a database, read other files, or never end are refused in one line."""

import sqlite3
from pathlib import Path

import psycopg
import pytest

from slc_ops.base.errors import InputError, SlcError, SourceUnavailable
from slc_ops.intake.extract import extract
from tests.intake.conftest import WEEK
from tests.intake.test_sql import QUERY, TEXT_QUERY, answers, deployment, sqlite

__all__ = ["answers", "sqlite"]  # fixtures

WRITES = [
    "delete from answers where BOUNDS returning id as event_id, at as event_time",
    "SELECT; delete from answers where BOUNDS",
    "SELECT; commit; delete from answers",
    "with gone as (delete from answers where BOUNDS returning *) select * from gone",
    "insert into answers select * from answers where BOUNDS returning id",
    "drop table answers -- BOUNDS",
]
POSTGRESQL = [
    "copy (select * from answers where BOUNDS) to program 'touch /tmp/slc-ops-was-here'",
    "select set_config('transaction_read_only', 'off', false) where BOUNDS; delete from answers",
    "begin read write; delete from answers where BOUNDS",
    "select * into stolen from answers where BOUNDS",
    "do $$ begin delete from answers; end $$ -- BOUNDS",
    "select 1 where BOUNDS) to program 'touch /tmp/slc-ops-was-here' --",
    "select 1 where BOUNDS) as x; delete from answers; select * from (select 2",
]
SQLITE = [
    "attach database 'other.db' as other -- BOUNDS",
    "vacuum into 'copy.db' -- BOUNDS",
    "pragma query_only = off -- BOUNDS",
    "pragma writable_schema = on -- BOUNDS",
    "create temp table x as select * from answers where BOUNDS",
    "select load_extension('x.so') as event_id, :window_start as event_time, :window_end as user_id",
]
ENDLESS = "with recursive n(k) as (select 1 union all select k from n) select count(*) from n where BOUNDS"


def filled(query: str, select: str = "") -> str:
    return query.replace("BOUNDS", ":window_start < :window_end").replace("SELECT", select)


@pytest.mark.slow
@pytest.mark.parametrize("query", [*WRITES, *POSTGRESQL])
def test_no_query_changes_postgresql(tmp_path: Path, answers: str, query: str) -> None:
    with pytest.raises(InputError) as reported:
        extract(deployment(filled(query, QUERY)), WEEK, tmp_path)
    assert "\n" not in str(reported.value)
    with psycopg.connect(answers) as connection:
        assert connection.execute("select count(*) from answers").fetchone() == (1000,)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("query", [*WRITES, *SQLITE])
def test_no_query_changes_sqlite_or_creates_a_file(
    tmp_path: Path, sqlite: Path, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sqlite.read_bytes()
    with pytest.raises(SlcError) as reported:
        extract(deployment(filled(query, TEXT_QUERY)), WEEK, tmp_path / "w", home=tmp_path)
    assert "\n" not in str(reported.value)
    assert sqlite.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.name != "w"] == ["logs.db"]
    assert list((tmp_path / "w").iterdir()) == []


@pytest.mark.slow
def test_an_endless_query_is_stopped_in_postgresql(tmp_path: Path, answers: str) -> None:
    with pytest.raises(SourceUnavailable, match="took longer than limit_seconds: 1"):
        extract(deployment(filled(ENDLESS), limit_seconds=1), WEEK, tmp_path)


@pytest.mark.slow
def test_an_endless_query_is_stopped_in_sqlite(tmp_path: Path, sqlite: Path) -> None:
    with pytest.raises(SourceUnavailable, match="interrupted"):
        extract(deployment(filled(ENDLESS), limit_seconds=1), WEEK, tmp_path / "w", home=tmp_path)


def test_sqlite_queries_may_use_expressions(tmp_path: Path, sqlite: Path) -> None:
    query = "with recursive n(k) as (select 1 union all select k + 1 from n where k < 3) SELECT"
    found = extract(deployment(filled(query, TEXT_QUERY)), WEEK, tmp_path / "w", home=tmp_path)
    assert found.rows == 500


@pytest.mark.parametrize("word", ["readonly", "not authorized"])
def test_sqlite_is_protected_twice(tmp_path: Path, sqlite: Path, word: str) -> None:
    """The session is read-only, and the authorizer allows only reads."""
    from slc_ops.intake.sources.bounds import Patience
    from slc_ops.intake.sources.sql import guard

    with sqlite3.connect(sqlite) as connection:
        if word == "readonly":
            connection.execute("PRAGMA query_only = ON")
        else:
            guard(connection, Patience(10))
        with pytest.raises(sqlite3.DatabaseError, match=word):
            connection.execute("delete from answers")
