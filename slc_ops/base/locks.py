"""One process at a time, and files that one of many processes makes on first use."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from slc_ops.base.errors import StorageError
from slc_ops.base.files import create_file, make_directory, typed_storage


@contextmanager
def file_lock(path: Path, seconds: float) -> Iterator[None]:
    """Hold a lock that the operating system releases when its holder dies.

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


def create_once(path: Path, make: Callable[[Path], None], seconds: float = 120.0) -> None:
    """Let ``make`` fill a file under a temporary name, unless ``path`` exists; then give it its name.

    For what takes several steps to be usable, as a database and its tables: of many processes one makes it
    and the others wait; one that is killed half-way leaves nothing under the name, and what it left under
    the temporary one is removed by the next. An empty file counts as none: that is what an opened and never
    used database looks like.
    """
    if _has_content(path):
        return
    make_directory(path.parent)
    with file_lock(path.with_name(f".{path.name}.lock"), seconds):
        if _has_content(path):
            return
        for left in path.parent.glob(f".{path.name}.new*"):  # ours alone: we hold the lock
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
                for left in path.parent.glob(f".{path.name}.new*"):  # with a database's journal
                    left.unlink(missing_ok=True)


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from None
