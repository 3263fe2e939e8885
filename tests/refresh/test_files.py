"""The file names of a refresh are defined in one module."""

import re

import pytest

from slc_ops.base.code_version import PACKAGE

OWNERS = {
    "plan.json": {"refresh/files.py"},
    "backtest.json": {"refresh/files.py"},
    "versions.json": {"refresh/files.py"},
    "outcome.json": {"refresh/files.py"},
    "report.html": {"refresh/files.py"},
    "score.json": {"evidence/scoring.py"},
    "key.json": {"evidence/scoring.py"},
    "users.parquet": {"evidence/scoring.py"},
    "detectability.json": {"evidence/detectability.py"},
    # A control and an MLflow run have a verdict too.
    "verdict.json": {"refresh/files.py", "controls/run.py", "registry/publication.py"},
    # Of a score, of a detectability report and of a window.
    "items.parquet": {"evidence/scoring.py", "evidence/detectability.py", "quality/statistics.py"},
}  # fmt: skip


@pytest.mark.parametrize("name", OWNERS)
def test_file_names_of_a_refresh_are_defined_in_one_module(name: str) -> None:
    spelled = re.compile(rf"""["']{re.escape(name)}["']""")
    found = {
        source.relative_to(PACKAGE).as_posix()
        for source in PACKAGE.rglob("*.py")
        if spelled.search(source.read_text())
    }
    assert found == OWNERS[name]
