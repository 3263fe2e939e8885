"""Sets of the conformance suite as exports, and rows with their expected probabilities."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from slc_ops.cli.parameter_sets import read_set
from slc_ops.serving.export import Exported, export
from slc_ops.serving.export_sql import Names

SUITE = Path(__file__).resolve().parents[2] / "conformance"
GOOD = {
    entry["directory"].removeprefix("good/"): entry["rows"]
    for entry in json.loads((SUITE / "manifest.json").read_text(encoding="utf-8"))["sets"]
    if "rows" in entry
}
IDS = ("item_id", "group_id", "user_id")


def good_set(name: str) -> Exported:
    """A set of the suite."""
    return read_set(str(SUITE / "good" / name))


def exported(name: str, directory: Path, dialect: str, **names: Any) -> Path:
    """The set as SQL, its times as numbers."""
    export(good_set(name), directory, "sql", dialect=dialect, names=Names(**{"timestamps": False, **names}))
    return directory


def rows_of(name: str) -> tuple[pa.Table, list[float | None]]:
    """The rows of the suite and the golden vectors of a set as a table, with the expected results."""
    golden = json.loads((SUITE / "good" / name / "golden.json").read_text(encoding="utf-8"))["vectors"]
    rows = [*GOOD[name], *golden]
    columns: dict[str, Any] = {"n": pa.array(range(len(rows)))}
    for column in IDS:
        ids = [row.get(column) for row in rows]
        columns[column] = pa.array(
            ids, pa.int64() if any(isinstance(each, int) for each in ids) else pa.string()
        )
    columns["logit"] = pa.array([row["logit"] for row in rows], pa.float64())
    columns["event_time"] = pa.array([row["time"] for row in rows], pa.float64())
    return pa.table(columns), [row["probability"] for row in rows]


def agree(found: list[Any], expected: list[float | None]) -> None:
    """Equal to 1e-9; NULL if a reader refuses the row."""
    assert len(found) == len(expected)
    for number, (one, two) in enumerate(zip(found, expected, strict=True)):
        alike = one is two if None in (one, two) else abs(one - two) <= 1e-9
        assert alike, f"row {number}: {one} instead of {two}"
