"""``slc-ops demo`` from the wheel gives the result of ``make run`` with Airflow."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.release.conftest import PlainAirflow
from tests.release.environments import ROOT, clean_environment

pytestmark = pytest.mark.services


def result(command: list[str], cwd: Path, home: Path) -> tuple[str, str]:
    """The printed table and verdict, and the report without paths, digests and durations."""
    done = subprocess.run(
        command, cwd=cwd, env=clean_environment() | {"COLUMNS": "100"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    said = re.search(r"^demo, week .*?(?=^Version:)", done.stdout, re.DOTALL | re.MULTILINE)
    assert said
    assert "Verdict: PROMOTE slc_eb" in said[0]
    (report,) = home.glob("refreshes/demo/*/*/report/report.html")
    text = report.read_text().replace(str(home), "HOME")
    text = re.sub(r"<td>\d+\.\d{3}</td></tr>", "<td>SECONDS</td></tr>", text)
    return said[0], re.sub(r"\b[0-9a-f]{12,}\b", "DIGEST", text)


def test_the_demo_of_the_wheel_gives_the_table_verdict_and_report_of_make_run(
    plain_airflow: PlainAirflow, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    installed = plain_airflow.python.with_name("slc-ops")
    alone = result([str(installed), "demo"], empty, empty / "slc-demo")
    make_run = [sys.executable, "-m", "slc_ops.demo.run", "run", "--home", str(tmp_path / "var")]
    through_airflow = result(make_run, ROOT, tmp_path / "var")
    assert alone[0] == through_airflow[0]
    assert alone[1] == through_airflow[1]
