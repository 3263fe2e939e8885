"""First use of a home by many processes, some of them killed, leaves usable databases."""

import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slc_ops.registry import Registry
from tests.registry.factory import installation_in

ROOT = Path(__file__).parents[2]
USE = """
import sys
from pathlib import Path
from slc_ops.registry import Registry
from tests.registry.factory import installation_in
registry = Registry.open(installation_in(Path(sys.argv[1])))
print("ledger", registry.ledger.deployments(), flush=True)
print("mlflow", len(registry.client.search_experiments()), flush=True)
"""


def use(home: Path) -> "subprocess.Popen[str]":
    """A process that uses the ledger and MLflow for the first time."""
    return subprocess.Popen(
        [sys.executable, "-c", USE, str(home)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=home,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


@pytest.mark.faults(
    "several processes use a new home for the first time, some are killed",
    "complete databases",
)
@pytest.mark.services
def test_first_use_by_several_partly_killed_processes_leaves_complete_databases(tmp_path: Path) -> None:
    chance = random.Random(16)
    database = tmp_path / "mlflow" / "mlflow.db"
    begun = tmp_path / "mlflow" / ".mlflow.db.new"
    for _ in range(4):  # killed while MLflow's tables are created
        process = use(tmp_path)
        deadline = time.monotonic() + 60
        while not begun.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 1.0))
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not database.exists()
    together = [use(tmp_path) for _ in range(3)]
    for process in together:
        said, error = process.communicate(timeout=180)
        assert process.returncode == 0, error
        assert "mlflow 1" in said
    for file in (database, tmp_path / "ledger.db"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        with sqlite3.connect(file) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert [path.name for path in tmp_path.rglob("*.new*")] == []


def test_after_a_kill_the_next_process_creates_the_ledger(tmp_path: Path) -> None:
    (tmp_path / ".ledger.db.new").write_bytes(b"SQLite format 3\x00 and no more")
    (tmp_path / ".ledger.db.new-journal").write_bytes(b"half")
    (tmp_path / "ledger.db").touch()  # an empty database file
    assert Registry.open(installation_in(tmp_path)).ledger.deployments() == []
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {".ledger.db.lock", "ledger.db"}
    assert stat.S_IMODE((tmp_path / "ledger.db").stat().st_mode) == 0o600
