"""Files that are whole or absent, and digests of what they say.

A step writes to a temporary name in the same directory and renames last, so that a crash leaves either
the old state or the new one, never half of it.
"""

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


def canonical_json(value: Any) -> str:
    """The one spelling of a JSON value: sorted keys, no spaces, no NaN.

    >>> canonical_json({"b": 1, "a": [1.5, None]})
    '{"a":[1.5,null],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def digest_json(value: Any) -> str:
    """SHA-256 of the canonical spelling of a JSON value."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def digest_file(path: Path) -> str:
    """SHA-256 of a file's bytes, read in blocks."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_json(path: Path) -> Any:
    """Parse a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file, readable for people, atomically."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file name beside ``path``; on success it is synced and renamed to ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=path.suffix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing_directory(path: Path) -> Iterator[Path]:
    """Yield a temporary directory beside ``path``; on success it takes the place of ``path``.

    A directory cannot be replaced atomically while it exists; the old one is moved aside first, so that
    a reader sees the old one, nothing (for an instant) or the new one, never a mixture. Of two writers at
    once, both succeed and the later one stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield temporary
        os.chmod(temporary, 0o777 & ~_umask())
        while not _moved(temporary, path):
            discarded = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
            with suppress(FileNotFoundError):  # another writer moved it aside first
                os.replace(path, discarded / path.name)
            shutil.rmtree(discarded, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _moved(source: Path, target: Path) -> bool:
    """Rename a directory; False when something stands in the way."""
    try:
        os.replace(source, target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            return False
        raise
    return True


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
