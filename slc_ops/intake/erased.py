"""Users who were erased, as salted hashes: extraction leaves their rows out, whatever the source still holds.

The salt lies in the home, its owner's alone. Without it nobody can try ids against the hashes, so nobody
learns from them who was erased; with it, an id that comes back is recognised.
"""

import hashlib
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.base.errors import MissingFile, SourceUnavailable
from slc_ops.base.files import digest_json, read_json, understanding, write_json
from slc_ops.base.locks import create_once

DIRECTORY = "erased"
SALT = "salt.json"
_BYTES = 32


class Erased:
    """The erased users of one deployment, as they were when this was read."""

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

    @property
    def digest(self) -> str:
        """Names this state of the list."""
        return digest_json(sorted(self.users))

    def hash(self, value: str) -> str:
        """The salted hash of an id's text."""
        if self._salt is None:
            self._salt = self._read_salt()
        return hashlib.blake2b(value.encode(), key=self._salt, digest_size=_BYTES).hexdigest()

    def add(self, users: Iterable[str]) -> "Erased":
        """The list with more users, written whole or not at all; users that it knows change nothing."""
        salt = self._directory / SALT
        if not salt.exists() and any(self._directory.glob("*.json")):
            raise MissingFile(salt)  # another salt would make those who were erased unknown again
        create_once(salt, _new_salt)
        more = self.users | {self.hash(user) for user in users}
        if more != self.users:
            write_json(self.path, {"schema_version": 1, "users": sorted(more)})
            self.users = more
        return self

    def rows(self, users: pa.Array) -> pa.Array:
        """Which rows are of an erased user; ids are compared as text, a row without a user is nobody's."""
        encoded = pc.dictionary_encode(pc.cast(users, pa.string()))
        known = [
            value is not None and self.hash(value) in self.users for value in encoded.dictionary.to_pylist()
        ]
        return pc.fill_null(pc.take(pa.array(known, pa.bool_()), encoded.indices), False)

    def without(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches without the rows of erased users."""
        for batch in batches:
            kept = batch
            if self.users and "user_id" in batch.schema.names:
                theirs = self.rows(batch.column("user_id"))
                kept = batch.filter(pc.invert(theirs)) if pc.any(theirs).as_py() else batch
            if kept.num_rows:
                yield kept

    def check_current(self) -> None:
        """Raise where users were erased since this was read: rows chosen by it must not be kept."""
        if Erased(self._directory.parent, self.path.stem).users != self.users:
            raise SourceUnavailable(
                "users were erased while the window was being extracted; it was thrown away, try again"
            )

    def _read_salt(self) -> bytes:
        path = self._directory / SALT
        if not path.exists():
            raise MissingFile(path)
        with understanding(path):
            return bytes.fromhex(read_json(path)["salt"])


def _new_salt(path: Path) -> None:
    write_json(path, {"salt": secrets.token_hex(_BYTES)})
