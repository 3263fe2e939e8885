"""Atomic file writes.

A step writes to a temporary name in the same directory and renames last, so that a crash leaves either the
old state or the new one. Files may contain people's ids and verdicts about them, so only their owner can read
them, from the first byte on; ``shared`` applies the umask instead, for files that a user requested by name.
"""

import errno
import json
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from slc_ops.base.digests import canonical_json, digest_json
from slc_ops.base.errors import DamagedFile, MissingFile, SlcError, StorageError

_REFUSALS = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EROFS,
        errno.EACCES,
        errno.EPERM,
        errno.EIO,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.ENAMETOOLONG,
        errno.ELOOP,
    }
)

_synced: ContextVar[bool] = ContextVar("synced", default=True)


SEAL = "sealed_digest"
"""The key under which a JSON object stores its own digest."""


def read_json(path: Path) -> Any:
    """Parse a JSON file; raise :class:`MissingFile` or :class:`DamagedFile`.

    A sealed file (see :func:`write_json`) is damaged when its content does not match its digest.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise MissingFile(path) from None
    except (ValueError, RecursionError) as error:
        raise DamagedFile(path, str(error)) from None
    if isinstance(value, dict) and SEAL in value and value.pop(SEAL) != digest_json(value):
        raise DamagedFile(path, "its content was changed after it was written")
    return value


def stored_under(path: Path, key: str) -> dict[str, Any]:
    """Return the object of a JSON file that was written under this ``key``; {} without one."""
    if not path.exists():
        return {}
    with understanding(path):
        value: dict[str, Any] = read_json(path)
        return value if value["key"] == key else {}


@contextmanager
def understanding(path: Path) -> Iterator[None]:
    """Raise :class:`DamagedFile` for the errors that unexpected JSON content causes in the block."""
    try:
        yield
    except SlcError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DamagedFile(path, f"{type(error).__name__}: {error}") from None


def write_json(path: Path, value: Any, *, shared: bool = False, sealed: bool = False) -> None:
    """Write an indented JSON file atomically; a ``sealed`` object carries its own digest."""
    if sealed:
        plain = json.loads(canonical_json(value))  # as a reader parses it
        value = plain | {SEAL: digest_json(plain)}
    text = json.dumps(value, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n"
    write_text(path, text, shared=shared)


def write_text(path: Path, text: str, *, shared: bool = False) -> None:
    """Write a text file atomically."""
    with replacing(path, shared=shared) as temporary:
        temporary.write_text(text, encoding="utf-8")


def storage_refusal(error: OSError) -> str | None:
    """Return the operating system's reason for a refused write; None for any other error.

    >>> storage_refusal(OSError(28, "No space left on device", "/data/x"))
    'No space left on device: /data/x'
    >>> storage_refusal(FileNotFoundError(2, "No such file or directory", "/data/x"))
    >>> storage_refusal(FileNotFoundError(2, "No usable temporary directory found in ['/tmp']"))
    "No usable temporary directory found in ['/tmp']"
    """
    # When all temporary directories are full, Python reports that there is none.
    if error.errno not in _REFUSALS and "No usable temporary directory" not in str(error):
        return None
    reason = error.strerror or str(error)
    return f"{reason}: {error.filename}" if error.filename else reason


@contextmanager
def typed_storage(path: Path) -> Iterator[None]:
    """Raise :class:`StorageError` when the disk is full, read-only or not writable for us."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        reason = storage_refusal(error)
        if reason is None:
            raise
        raise StorageError(
            f"cannot write {path}: {reason}; free space or grant write permission, then try again"
        ) from None


def make_directory(path: Path, *, shared: bool = False) -> None:
    """Create a directory and its missing parents, accessible to the owner only (``shared``: by the umask).

    Existing directories keep their permissions.
    """
    path = path.absolute()
    missing = [each for each in (path, *path.parents) if not each.exists()]
    with typed_storage(path):
        for each in reversed(missing):
            with suppress(FileExistsError):  # another process was faster
                os.mkdir(each, 0o777 if shared else 0o700)
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


@contextmanager
def unsynced() -> Iterator[None]:
    """Skip ``fsync`` for files written in this block: they are temporary and need not survive a power cut."""
    token = _synced.set(False)
    try:
        yield
    finally:
        _synced.reset(token)


@contextmanager
def replacing(path: Path, *, shared: bool = False) -> Iterator[Path]:
    """Yield a temporary file name beside ``path``; on success sync it and rename it to ``path``.

    A device or a pipe (``/dev/stdout``) is written to directly.
    """
    with typed_storage(path):
        if _is_special(path):
            yield path
            return
        make_directory(path.parent, shared=shared)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}{path.suffix}")
        try:
            # The kernel applies the umask; reading it would mean changing it, which affects other threads.
            create_file(temporary, 0o666 if shared else 0o600)
            yield temporary
            if _synced.get():
                with temporary.open("rb") as stream:
                    os.fsync(stream.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def replacing_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary directory beside ``path``; on success rename it to ``path``.

    A directory cannot be replaced atomically while it exists. The old one is moved aside first, so that a
    reader sees the old one, nothing (for an instant) or the new one, never a mixture. Of two concurrent
    writers both succeed and the later one wins. A file or a device of that name raises an error.
    """
    with typed_storage(path):
        if path.is_file() or _is_special(path):
            raise StorageError(f"cannot write the directory {path}: it is a file; choose another name")
        make_directory(path.parent)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        try:
            yield temporary
            while not _moved(temporary, path):
                discarded = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
                with suppress(FileNotFoundError):  # another writer moved it aside first
                    os.replace(path, discarded / path.name)
                shutil.rmtree(discarded, ignore_errors=True)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def create_file(path: Path, mode: int) -> None:
    """Create an empty file with this mode (less the umask); raise if the name exists."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, mode))


def _is_special(path: Path) -> bool:
    """Return True for a device or a pipe; every name in ``/dev`` counts, even a link to a file."""
    if path.absolute().parent == Path("/dev"):
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _moved(source: Path, target: Path) -> bool:
    """Rename a directory; return False when the target exists."""
    try:
        os.replace(source, target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            return False
        raise
    return True
