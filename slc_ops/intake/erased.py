"""Erased users, as salted hashes: extraction omits their rows even when the source still has them.

The salt is a file in the home that only its owner can read. Without it, ids cannot be tested against the
hashes, so the list does not reveal the users; with it, extraction recognises an id that returns.
"""

import hashlib
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.base.errors import InputError, MissingFile, SourceUnavailable
from slc_ops.base.files import read_json, understanding, write_json
from slc_ops.base.locks import create_once
from slc_ops.base.tabular import SUFFIXES, TabularFile

DIRECTORY = "erased"
SALT = "salt.json"
_BYTES = 32


class Erased:
    """The erased users of one deployment, as of the time of reading."""

    def __init__(self, home: Path, deployment: str) -> None:
        self._directory = home / DIRECTORY
        self.path = self._directory / f"{deployment}.json"
        self.users: frozenset[str] = frozenset()
        if self.path.exists():
            with understanding(self.path):
                self.users = frozenset(read_json(self.path)["users"])
        self._salt: bytes | None = None

    def __bool__(self) -> bool:
        return bool(self.users)

    def hash(self, value: str) -> str:
        """Return the salted hash of an id's text."""
        if self._salt is None:
            path = self._directory / SALT
            with understanding(path):
                self._salt = bytes.fromhex(read_json(path)["salt"])
        return hashlib.blake2b(value.encode(), key=self._salt, digest_size=_BYTES).hexdigest()

    def add(self, users: Iterable[str]) -> "Erased":
        """Add users to the list and write it atomically; known users change nothing."""
        salt = self._directory / SALT
        if not salt.exists() and any(self._directory.glob("*.json")):
            raise MissingFile(salt)  # a new salt would invalidate the existing hashes
        create_once(salt, lambda path: write_json(path, {"salt": secrets.token_hex(_BYTES)}))
        more = self.users | {self.hash(user) for user in users}
        if more != self.users:
            write_json(self.path, {"schema_version": 1, "users": sorted(more)})
            self.users = more
        return self

    def rows(self, users: pa.Array) -> pa.Array:
        """Return a mask of the rows of erased users; ids are compared as text, a null user is False."""
        encoded = pc.dictionary_encode(pc.cast(users, pa.string()))
        known = [
            value is not None and self.hash(value) in self.users for value in encoded.dictionary.to_pylist()
        ]
        return pc.fill_null(pc.take(pa.array(known, pa.bool_()), encoded.indices), False)

    def without(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches without the rows of erased users."""
        for batch in batches:
            kept = batch
            if self.users and "user_id" in batch.schema.names:
                theirs = self.rows(batch.column("user_id"))
                kept = batch.filter(pc.invert(theirs)) if pc.any(theirs).as_py() else batch
            if kept.num_rows:
                yield kept

    def check_current(self) -> None:
        """Raise if users were erased since the list was read: rows selected by it must not be kept."""
        if Erased(self._directory.parent, self.path.stem).users != self.users:
            raise SourceUnavailable(
                "users were erased while the window was being extracted; its rows were discarded, try again"
            )


def read_users(path: Path, column: str = "user_id") -> list[str]:
    """Return the distinct ids as text, in order.

    Raises :class:`~slc_ops.base.errors.InputError` for a file that cannot be read, or that has no id.
    """
    try:
        found = _column(path, column) if path.suffix in SUFFIXES else _lines(path)
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text; expected one user id per line") from None
    except (pa.ArrowException, OSError) as error:
        first = str(error).splitlines()[0]
        raise InputError(f"{path} cannot be read ({first}); expected a table with user ids") from None
    users = list(dict.fromkeys(found))
    if not users:
        raise InputError(f"{path} holds no user id; expected one per line, or a column of them")
    return users


def _lines(path: Path) -> list[str]:
    """Return the lines without line breaks; spaces belong to an id, empty lines are ignored."""
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line]


def _column(path: Path, name: str) -> list[str]:
    file = TabularFile(path, types={name: pa.string()}, strict=True)
    if name not in file.schema.names:
        raise InputError(
            f"{path} has no column {name!r}; it has {', '.join(file.schema.names)}: name one with --column"
        )
    return [
        user
        for batch in file.batches()
        for user in pc.cast(batch.column(name), pa.string()).to_pylist()
        if user is not None
    ]
