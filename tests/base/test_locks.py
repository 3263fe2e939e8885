"""Files created on first use by many processes are created once and completely."""

import multiprocessing
import os
import signal
import stat
import time
from functools import partial
from pathlib import Path

import pytest

from slc_ops.base.errors import StorageError
from slc_ops.base.locks import create_once, file_lock
from tests.registry.factory import no_file_above


def slowly(path: Path) -> None:
    """Write two halves, with time for a kill in between."""
    path.write_text("first half, ")
    time.sleep(0.3)
    path.write_text("first half, second half")


def write(text: str, path: Path) -> None:
    path.write_text(text)


def first_use(path: Path) -> None:
    create_once(path, slowly)


@pytest.mark.faults(
    "`kill -9` while a database is created",
    "the next process creates it completely",
)
def test_after_a_killed_writer_the_next_process_creates_the_complete_file(
    tmp_path: Path,
) -> None:
    context = multiprocessing.get_context("fork")
    target = tmp_path / "ledger.db"
    for pause in (0.05, 0.1, 0.2):
        maker = context.Process(target=first_use, args=(target,))
        maker.start()
        time.sleep(pause)
        os.kill(maker.pid or 0, signal.SIGKILL)
        maker.join()
        assert not target.exists()
    makers = [context.Process(target=first_use, args=(target,)) for _ in range(4)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert target.read_text() == "first half, second half"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == [".ledger.db.lock", "ledger.db"]


def test_an_existing_file_is_kept_and_an_empty_one_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "mlflow.db"
    target.touch()
    for text in ("made", "made again"):
        create_once(target, partial(write, text))
    assert target.read_text() == "made"


def test_a_full_disk_leaves_neither_the_file_nor_a_temporary_file(tmp_path: Path) -> None:
    def fill(path: Path) -> None:
        path.write_bytes(b"x" * 10_000)

    with no_file_above(4096), pytest.raises(StorageError, match=r"mlflow\.db"):
        create_once(tmp_path / "mlflow.db", fill)
    assert [path.name for path in tmp_path.iterdir()] == [".mlflow.db.lock"]


def test_waiting_for_a_held_lock_times_out(tmp_path: Path) -> None:
    with (
        file_lock(tmp_path / "lock", 1),
        pytest.raises(TimeoutError, match="waited 0 s"),
        file_lock(tmp_path / "lock", 0.1),
    ):
        pass
