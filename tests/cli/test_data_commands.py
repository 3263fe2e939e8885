"""``slc-ops simulate`` at the terminal."""

import json
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from slc_ops.cli import app

COMMAND = str(Path(sys.executable).parent / "slc-ops")


def test_simulate_reports_what_it_wrote(tmp_path: Path) -> None:
    arguments = ["--weeks", "2", "--users", "20", "--items", "10", "--rows-per-week", "100", "--json", "-"]
    done = CliRunner().invoke(app, ["simulate", "--out", str(tmp_path / "lake"), *arguments])
    assert done.exit_code == 0
    answer = json.loads(done.output)
    assert (answer["weeks"], answer["rows"], answer["last_window"]) == (2, 200, "2026-01-12/2026-01-19")
    assert len(list((tmp_path / "lake").glob("week=*/part-0.parquet"))) == 2


def test_an_invalid_start_gives_one_line_and_exit_code_2(tmp_path: Path) -> None:
    command = [COMMAND, "simulate", "--out", str(tmp_path / "lake"), "--start", "2026-01-07"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.strip() == (
        "slc-ops: simulate starts on a Monday at 00:00 UTC, '2026-01-07' is a Wednesday at 00:00"
    )
    assert not (tmp_path / "lake").exists()


def test_an_unknown_data_set_gives_one_line_and_exit_code_2(tmp_path: Path) -> None:
    done = subprocess.run(
        [COMMAND, "ingest", "ednet", "x", "--out", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "assistments2017" in done.stderr
