"""Exported SQL in Snowflake's dialect, run by fakesnow in an environment of its own."""

import json
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

from tests.intake.emulators import environment_with
from tests.serving.exported import GOOD, IDS, agree, exported, rows_of


@pytest.mark.services
def test_snowflake_gives_the_probabilities_of_the_suite(tmp_path: Path) -> None:
    python = environment_with(tmp_path / "venv", "fakesnow==0.12.1", "snowflake-connector-python==4.8.1")
    directories = [exported(name, tmp_path / name, "snowflake") for name in GOOD]
    for name, directory in zip(GOOD, directories, strict=True):
        table, _ = rows_of(name)
        kinds = {each: "NUMBER" if table.schema.field(each).type == pa.int64() else "VARCHAR" for each in IDS}
        columns = ", ".join(f"{column} {kind}" for column, kind in kinds.items())
        rows = ",\n".join(f"({', '.join(map(literal, row.values()))})" for row in table.to_pylist())
        made = f"CREATE OR REPLACE TABLE log (n INT, {columns}, logit DOUBLE, event_time DOUBLE);\n"
        filled = f"INSERT INTO log VALUES {rows};\n"  # noqa: S608
        (directory / "log.sql").write_text(made + filled, encoding="utf-8")
    command = [str(python), str(Path(__file__).with_name("in_fakesnow.py")), *map(str, directories)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    for name, found in zip(GOOD, json.loads(done.stdout.splitlines()[-1]), strict=True):
        agree(found, rows_of(name)[1])


def literal(value: str | float | None) -> str:
    """A value of a row in Snowflake's syntax."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return repr(value)
