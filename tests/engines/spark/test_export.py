"""Exported SQL in Spark's dialect gives the probabilities of the conformance suite."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from slc_ops.engines.spark.engine import SparkEngine
from tests.serving.exported import GOOD, agree, exported, good_set, rows_of


@pytest.fixture(autouse=True)
def _tables_of_its_own(engine: SparkEngine, tmp_path: Path) -> Iterator[None]:
    """Spark stores tables in the current directory; use a temporary one."""
    engine.session.sql(f"CREATE DATABASE ours LOCATION '{tmp_path}/tables'")
    engine.session.sql("USE ours")
    yield
    engine.session.sql("USE default")
    engine.session.sql("DROP DATABASE ours CASCADE")


@pytest.mark.parametrize("name", sorted(GOOD))
def test_the_view_gives_the_probabilities_of_the_suite(
    name: str, engine: SparkEngine, tmp_path: Path
) -> None:
    session = engine.session
    table, expected = rows_of(name)
    pq.write_table(table, tmp_path / "log.parquet")
    session.sql(f"CREATE TABLE log USING parquet AS SELECT * FROM parquet.`{tmp_path}/log.parquet`")  # noqa: S608
    exported(name, tmp_path / "out", "spark")
    run(engine, tmp_path / "out")
    found = session.sql("SELECT p_corrected FROM slc_corrected ORDER BY n").collect()
    agree([row[0] for row in found], expected)
    described = session.sql("DESCRIBE TABLE EXTENDED slc_corrected").collect()
    assert any("method" in (row[1] or "") for row in described if row[0] == "Comment")


def test_ids_are_compared_byte_for_byte_whatever_the_collation(engine: SparkEngine, tmp_path: Path) -> None:
    session = engine.session
    session.sql("CREATE TABLE log (n INT, item_id STRING COLLATE UTF8_LCASE, logit DOUBLE) USING parquet")
    rows = ", ".join(f"({n}, '{each}', 0.5)" for n, each in enumerate(["A", "a", "a ", "17", "017"]))
    session.sql(f"INSERT INTO log VALUES {rows}")  # noqa: S608
    exported("texts", tmp_path / "out", "spark")
    run(engine, tmp_path / "out")
    found = session.sql("SELECT p_corrected FROM slc_corrected ORDER BY n").collect()
    expected = good_set("texts").parameters.correct(["A", "a", "a ", "17", "017"], [0.5] * 5)
    agree([row[0] for row in found], expected.tolist())


def run(engine: SparkEngine, directory: Path) -> None:
    """Run both scripts; Spark accepts one statement at a time and its own kind of paths."""
    for script in ("effects.sql", "score.sql"):
        text = (directory / script).read_text(encoding="utf-8").replace("parquet.`", f"parquet.`{directory}/")
        text = "\n".join(line for line in text.split("\n") if not line.startswith("--"))
        for statement in filter(str.strip, text.split(";\n")):
            engine.session.sql(statement)
