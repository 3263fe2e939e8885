"""What many processes make on first use is made once, whole, and by whoever lives."""

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
    """Two halves, with time to die in between."""
    path.write_text("first half, ")
    time.sleep(0.3)
    path.write_text("first half, second half")


def write(text: str, path: Path) -> None:
    path.write_text(text)


def first_use(path: Path) -> None:
    create_once(path, slowly)


@pytest.mark.faults(
    "`kill -9` while a database is made",
    "the next process makes it whole",
)
def test_a_maker_that_is_killed_half_way_leaves_nothing_and_the_next_one_makes_it_whole(
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


def test_what_exists_is_left_alone_and_an_empty_file_counts_as_none(tmp_path: Path) -> None:
    target = tmp_path / "mlflow.db"
    target.touch()
    for text in ("made", "made again"):
        create_once(target, partial(write, text))
    assert target.read_text() == "made"


def test_a_full_disk_leaves_neither_the_file_nor_a_temporary_one(tmp_path: Path) -> None:
    def fill(path: Path) -> None:
        path.write_bytes(b"x" * 10_000)

    with no_file_above(4096), pytest.raises(StorageError, match=r"mlflow\.db"):
        create_once(tmp_path / "mlflow.db", fill)
    assert [path.name for path in tmp_path.iterdir()] == [".mlflow.db.lock"]


def test_a_lock_that_somebody_holds_is_given_up_after_a_while(tmp_path: Path) -> None:
    with (
        file_lock(tmp_path / "lock", 1),
        pytest.raises(TimeoutError, match="waited 0 s"),
        file_lock(tmp_path / "lock", 0.1),
    ):
        pass
