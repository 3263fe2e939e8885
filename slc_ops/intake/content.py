"""A digest of what a log says, whatever its batches, its files and the order of its rows.

Each row gets two 64-bit hashes, mixed differently from the same values; their sums over all rows do not
depend on the order, and equal rows count as often as they occur. A database that returns rows in another
order, or a lake whose small files were merged, is therefore the same window.
"""

import hashlib
from collections.abc import Mapping
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.base.files import digest_json

_SEEDS = (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03)
_NULL = np.uint64(0xA0761D6478BD642F)
_LEADING = np.array([2 ** (8 * n) - 1 for n in range(9)], np.uint64)  # masks of a word's first n bytes


class ContentDigest:
    """Adds batches up; :meth:`hexdigest` names the content.

    >>> a, b = ContentDigest(), ContentDigest()
    >>> rows = pa.record_batch({"x": [1, 2, 3]})
    >>> a.add(rows)
    >>> b.add(rows.slice(2)); b.add(rows.slice(0, 2))
    >>> a.hexdigest() == b.hexdigest()
    True
    """

    def __init__(self) -> None:
        self.rows = 0
        self._sums = [0, 0]
        self._schema: list[list[str]] = []

    def add(self, batch: pa.RecordBatch, hashes: Mapping[str, np.ndarray] | None = None) -> None:
        """Count the rows of one batch in; ``hashes`` are its :func:`column_hashes`, where they are known."""
        self._schema = [[field.name, str(field.type)] for field in batch.schema]
        self.rows += batch.num_rows
        hashes = column_hashes(batch) if hashes is None else hashes
        for k, mixed in enumerate(row_hashes(hashes, batch.num_rows)):
            total = int(np.add.reduce(mixed, dtype=np.uint64)) if len(mixed) else 0
            self._sums[k] = (self._sums[k] + total) % 2**64

    def take_up(self, other: "ContentDigest") -> None:
        """Count the rows of another part in."""
        self._schema = self._schema or other._schema
        self.rows += other.rows
        self._sums = [(a + b) % 2**64 for a, b in zip(self._sums, other._sums, strict=True)]

    def hexdigest(self) -> str:
        """SHA-256 over the schema, the number of rows and the two sums."""
        return digest_json([self._schema if self.rows else [], self.rows, *map(str, self._sums)])


def column_hashes(batch: pa.RecordBatch) -> dict[str, np.ndarray]:
    """Column name → one 64-bit hash per row."""
    return {name: value_hashes(batch.column(name)) for name in batch.schema.names}


def row_hashes(columns: Mapping[str, np.ndarray], rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Two 64-bit hashes per row, over all columns with their names."""
    first, second = (np.full(rows, seed, dtype=np.uint64) for seed in _SEEDS)
    for name, hashes in columns.items():
        values = hashes ^ _name_hash(name)
        first = mix(first ^ values)
        second = mix(second + values)
    return first, second


@cache
def _name_hash(name: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little"))


def value_hashes(values: pa.Array) -> np.ndarray:
    """One 64-bit hash per value of a column; a null has its own."""
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        hashes = text_hashes(values)
    elif pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        hashes = text_hashes(values)  # bytes hash like the text they spell, and need not spell any
    elif pa.types.is_primitive(values.type) and values.type.bit_width in (8, 16, 32, 64):
        plain = values.view(f"int{values.type.bit_width}") if values.type.bit_width > 1 else values
        filled = plain.fill_null(0).to_numpy(zero_copy_only=False)
        hashes = mix(filled.astype(np.int64).view(np.uint64))
    else:
        hashes = text_hashes(pc.cast(values, pa.string()))
    if values.null_count:
        hashes[np.asarray(values.is_null())] = _NULL
    return hashes


def text_hashes(values: pa.Array) -> np.ndarray:
    """Hashes of strings, eight bytes of all of them at a time."""
    values = values.cast(pa.large_binary())
    _, offsets_buffer, data = values.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)[values.offset : values.offset + len(values) + 1]
    start, length = offsets[:-1], np.diff(offsets)
    used = np.frombuffer(data, np.uint8)[: offsets[-1]] if data is not None else np.empty(0, np.uint8)
    padded = np.concatenate([used[offsets[0] :], np.zeros(8, np.uint8)])
    if len(length) and (length == length[0]).all():
        return _equally_long(padded, len(length), int(length[0]))
    words = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))  # the word at every byte
    position, left = start - offsets[0], length.copy()
    hashes = mix(length.view(np.uint64))
    alive: np.ndarray | slice = slice(None)
    while True:
        keep = left > 0
        if not keep.all():  # most strings end early; go on with the long ones only
            alive = np.flatnonzero(keep) if isinstance(alive, slice) else alive[keep]
            position, left = position[keep], left[keep]
        if not len(left):
            return hashes
        word = words[position] & _LEADING[np.minimum(left, 8)]
        hashes[alive] = mix(hashes[alive] ^ word)
        position, left = position + 8, left - 8


def _equally_long(text: np.ndarray, count: int, length: int) -> np.ndarray:
    """The same hashes where all strings have one length, as UUIDs have: strides instead of positions."""
    hashes = mix(np.full(count, length, np.uint64))
    for k in range(0, length, 8):
        word = np.ndarray((count,), "<u8", text, offset=k, strides=(length,))
        hashes = mix(hashes ^ (word & _LEADING[min(length - k, 8)]))
    return hashes


def mix(x: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64: every input bit moves about half of the output bits."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x
