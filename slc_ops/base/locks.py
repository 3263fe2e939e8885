"""File locks, and files that one of several processes creates on first use."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from slc_ops.base.errors import StorageError
from slc_ops.base.files import create_file, make_directory, typed_storage

CREATION_SECONDS = 120.0
"""Longest wait for another process that creates the same file."""


@contextmanager
def file_lock(path: Path, seconds: float) -> Iterator[None]:
    """Hold a lock that the operating system releases when the process dies.

    Raises :class:`TimeoutError` when another process holds it for longer than ``seconds``.
    """
    import fcntl

    make_directory(path.parent)
    with typed_storage(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"waited {seconds:.0f} s for the lock {path}") from None
                time.sleep(0.01)
        yield
    finally:
        os.close(handle)  # releases the lock


def create_once(path: Path, make: Callable[[Path], None]) -> None:
    """Create ``path`` unless it exists: ``make`` fills a temporary file, which is then renamed.

    For files that need several steps, such as a database and its tables. One process creates the file, the
    others wait. A process that is killed leaves nothing under ``path``; the next one removes its temporary
    file. An empty file counts as missing, because a database that was opened and never used is empty.
    """
    if _has_content(path):
        return
    make_directory(path.parent)
    with file_lock(path.with_name(f".{path.name}.lock"), CREATION_SECONDS):
        if _has_content(path):
            return
        for left in path.parent.glob(f".{path.name}.new*"):  # safe: we hold the lock
            left.unlink(missing_ok=True)
        temporary = path.with_name(f".{path.name}.new")
        with typed_storage(path):
            try:
                create_file(temporary, 0o600)
                make(temporary)
                with temporary.open("rb") as stream:
                    os.fsync(stream.fileno())
                os.replace(temporary, path)
            finally:
                for left in path.parent.glob(f".{path.name}.new*"):  # includes a database's journal
                    left.unlink(missing_ok=True)


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from None
