"""SHA-256 digests of JSON values, files and bytes. 64-bit hashes of columns and ids: ``hashing``.

Without NumPy, because Airflow parses DAG files that import it.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def canonical_json(value: Any) -> str:
    """Return the canonical text of a JSON value: sorted keys, no spaces, no NaN.

    >>> canonical_json({"b": 1, "a": [1.5, None]})
    '{"a":[1.5,null],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def digest_json(value: Any) -> str:
    """Return the SHA-256 of the canonical text of a JSON value."""
    return digest_bytes([canonical_json(value).encode()])


def digest_text(text: str) -> str:
    """Return the SHA-256 of a text."""
    return digest_bytes([text.encode()])


def digest_bytes(parts: Iterable[bytes | memoryview]) -> str:
    """Return the SHA-256 of the parts, one after the other; a part may be the data of an array.

    >>> digest_bytes([b"a", b"b"]) == digest_bytes([b"ab"]) == digest_text("ab")
    True
    """
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def digest_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, read in blocks."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def lock_number(name: str) -> int:
    """Return the number of PostgreSQL's advisory lock for a name: 64 bits, with a sign."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], signed=True)
