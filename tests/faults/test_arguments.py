"""Malformed command lines."""

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.faults.homes import ROOT, environment
from tests.registry.factory import interactions

pytestmark = pytest.mark.chaos
MUTATIONS = 300


@pytest.mark.faults(
    "mutated arguments of every command, each in a separate process",
    "exit code 0, 1 or 2 within a minute, never a traceback",
)
def test_mutated_arguments_give_exit_code_0_1_or_2_and_no_traceback(home: Path, record_property) -> None:
    pq.write_table(interactions().as_table(), home / "rows.parquet")
    ended = subprocess.run(
        [sys.executable, "-m", "tests.faults.fuzzing", "7", str(MUTATIONS)],
        env=environment(home),
        cwd=home,
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    *wrong, count = ended.stdout.splitlines()
    assert ended.returncode == 0, ended.stderr
    assert (count, wrong) == (str(MUTATIONS), []), "\n".join(wrong)
    record_property("runs", MUTATIONS)
    assert str(ROOT) not in ended.stdout
