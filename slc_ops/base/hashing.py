"""64-bit hashes of columns and ids, and the content digest of a log. SHA-256: ``digests``.

:class:`ContentDigest` identifies a log's content independently of batches, files and row order. Each row gets
two 64-bit hashes, mixed differently from the same values. Their sums over all rows do not depend on the order
and count repeated rows. A database that returns rows in another order, or a lake that merged small files,
therefore has the same digest.

:func:`keys_of` turns an id into one or two 64-bit words. An integer is its own key, and so is a text of up to
15 bytes of UTF-8 (its bytes and its length): equal keys are equal ids. Longer texts are folded into 128 bits,
so that two of them share a key with a probability of about 2⁻¹²⁸.

Columns are mixed by SplitMix64, ids by :func:`stir`. A single function would change stored digests, or the
items and users that a fit holds out.
"""

import hashlib
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slc_ops.base.buffers import as_numpy
from slc_ops.base.digests import digest_json

Words = NDArray[np.uint64]

_SEEDS = (0x9E3779B97F4A7C15, 0xD1B54A32D192ED03)
_NULL = np.uint64(0xA0761D6478BD642F)
_LEADING = np.array([2 ** (8 * n) - 1 for n in range(9)], np.uint64)  # masks of a word's first n bytes
_BITS64 = (1 << 64) - 1
_ODD = 0x9E3779B97F4A7C15  # 2⁶⁴ divided by the golden ratio
_MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_SHORT = 15


class ContentDigest:
    """Accumulate batches; :meth:`hexdigest` identifies the content.

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
        """Add the rows of one batch; ``hashes`` are its :func:`column_hashes`, if already computed."""
        self._schema = [[field.name, str(field.type)] for field in batch.schema]
        self.rows += batch.num_rows
        hashes = column_hashes(batch) if hashes is None else hashes
        for k, mixed in enumerate(row_hashes(hashes, batch.num_rows)):
            self._sums[k] = (self._sums[k] + int(mixed.sum())) % 2**64

    def merge(self, other: "ContentDigest") -> None:
        """Add the rows of another digest."""
        self._schema = self._schema or other._schema
        self.rows += other.rows
        self._sums = [(a + b) % 2**64 for a, b in zip(self._sums, other._sums, strict=True)]

    def hexdigest(self) -> str:
        """Return the SHA-256 of the schema, the number of rows and the two sums."""
        return digest_json([self._schema if self.rows else [], self.rows, *map(str, self._sums)])


def column_hashes(batch: pa.RecordBatch) -> dict[str, np.ndarray]:
    """Map each column name to one 64-bit hash per row."""
    return {name: value_hashes(batch.column(name)) for name in batch.schema.names}


def row_hashes(columns: Mapping[str, np.ndarray], rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two arrays of one 64-bit hash per row, over all columns and their names."""
    first, second = (np.full(rows, seed, dtype=np.uint64) for seed in _SEEDS)
    for name, hashes in columns.items():
        values = hashes ^ _name_hash(name)
        first = mix(first ^ values)
        second = mix(second + values)
    return first, second


def combined_hashes(*columns: np.ndarray) -> np.ndarray:
    """Return one hash per row over the hashes of several columns."""
    combined = np.zeros(len(columns[0]), np.uint64)
    for hashes in columns:
        combined = mix(combined ^ hashes)
    return combined


@cache
def _name_hash(name: str) -> np.uint64:
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


def distinct(hashes: np.ndarray) -> np.ndarray:
    """Return the distinct hashes, sorted; ``np.unique`` would take fifty times as long.

    >>> distinct(np.array([5, 3, 5]))
    array([3, 5])
    """
    found = np.sort(hashes)
    return found[np.append(True, found[1:] != found[:-1])] if len(found) else found


def value_hashes(values: pa.Array) -> np.ndarray:
    """Return one 64-bit hash per value of a column; all nulls share one hash."""
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        hashes = text_hashes(values)
    elif pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type):
        hashes = text_hashes(values)  # bytes hash like the same text; they need not be UTF-8
    elif pa.types.is_primitive(values.type) and values.type.bit_width in (8, 16, 32, 64):
        filled = values.view(f"int{values.type.bit_width}").fill_null(0).to_numpy(zero_copy_only=False)
        hashes = mix(filled.astype(np.int64).view(np.uint64))
    else:
        hashes = text_hashes(pc.cast(values, pa.string()))
    if values.null_count:
        hashes[np.asarray(values.is_null())] = _NULL
    return hashes


def text_hashes(values: pa.Array) -> np.ndarray:
    """Hash strings, eight bytes of every string per step."""
    words, position, length = _texts(values)
    left = length.copy()
    hashes = mix(length.view(np.uint64))
    alive: np.ndarray | slice = slice(None)
    while True:
        keep = left > 0
        if not keep.all():  # most strings end early; continue with the long ones
            alive = np.flatnonzero(keep) if isinstance(alive, slice) else alive[keep]
            position, left = position[keep], left[keep]
        if not len(left):
            return hashes
        word = words[position] & _LEADING[np.minimum(left, 8)]
        hashes[alive] = mix(hashes[alive] ^ word)
        position, left = position + 8, left - 8


def _texts(values: pa.Array) -> tuple[Words, NDArray[np.int64], NDArray[np.int64]]:
    """Return the eight bytes at *every* position as a little-endian word; start and length of each text."""
    if not len(values):
        return np.zeros(1, "<u8"), np.empty(0, np.int64), np.empty(0, np.int64)
    values = values.cast(pa.large_binary())
    _, offsets_buffer, data = values.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)[values.offset : values.offset + len(values) + 1]
    begin, end = int(offsets[0]), int(offsets[-1])
    padded = np.zeros(end - begin + 8, np.uint8)  # padding allows a word at the last byte
    if data is not None:
        padded[: end - begin] = np.frombuffer(data, np.uint8)[begin:end]
    words = np.ndarray((end - begin + 1,), "<u8", padded, strides=(1,))
    return words, offsets[:-1] - begin, np.diff(offsets)


def mix(x: np.ndarray) -> np.ndarray:
    """Apply the finaliser of SplitMix64: every input bit flips about half of the output bits."""
    x = x + np.uint64(_ODD)
    x ^= x >> np.uint64(30)
    x *= np.uint64(_MIX[0])
    x ^= x >> np.uint64(27)
    x *= np.uint64(_MIX[1])
    x ^= x >> np.uint64(31)
    return x


def keys_of(ids: pa.Array) -> list[Words]:
    """Return the keys of integers (one word each) or of texts (two words each)."""
    if ids.type == pa.int64():
        return [as_numpy(ids).view(np.uint64)]
    words, first, length = _texts(ids)
    low = words[first] & _LEADING[np.minimum(length, 8)]
    high = words[np.minimum(first + 8, len(words) - 1)] & _LEADING[np.clip(length - 8, 0, 7)]
    high |= np.minimum(length, _SHORT + 1).astype(np.uint64) << np.uint64(56)
    long = np.flatnonzero(length > _SHORT)
    if len(long):
        low[long], high[long] = _fold(words, first[long], length[long])
    return [low, high]


def key_of(one: int | str) -> tuple[int, ...]:
    """Return the key of a single id, equal to :func:`keys_of`."""
    if isinstance(one, int):
        return (one & _BITS64,)
    text = one.encode()
    if len(text) <= _SHORT:
        return int.from_bytes(text[:8], "little"), int.from_bytes(text[8:], "little") | len(text) << 56
    low, high = len(text), ~len(text) & _BITS64
    for position in range(0, len(text), 8):
        word = int.from_bytes(text[position : position + 8], "little")
        low, high = _stir_one(low ^ word, _MIX[0]), _stir_one(high ^ word, _MIX[1])
    return low, high >> 8 | (_SHORT + 1) << 56


def bucket_of_keys(keys: list[Words], shift: int) -> NDArray[np.intp]:
    """Return a number of ``64 - shift`` bits for each key: the upper bits of a multiplicative hash."""
    mixed = keys[0] if len(keys) == 1 else keys[0] ^ (keys[1] * np.uint64(_MIX[0]))
    return ((mixed * np.uint64(_ODD)) >> np.uint64(shift)).astype(np.intp)


def bucket_of_key(key: tuple[int, ...], shift: int) -> int:
    """Return the bucket of a single key, equal to :func:`bucket_of_keys`."""
    mixed = key[0] if len(key) == 1 else key[0] ^ (key[1] * _MIX[0] & _BITS64)
    return (mixed * _ODD & _BITS64) >> shift


def hashes_of(ids: pa.Array) -> Words:
    """Return one pseudo-random 64-bit number per id, from the id alone; distinct integers never collide.

    >>> hashes = hashes_of(pa.array(["b", "a"])), hashes_of(pa.array(["a", "b", "a"]).dictionary_encode())
    >>> (hashes[0][[1, 0, 1]] == hashes[1]).tolist()
    [True, True, True]
    """
    if pa.types.is_dictionary(ids.type):
        return hashes_of(ids.dictionary).take(as_numpy(ids.indices))
    words = keys_of(ids)
    return stir(words[0] if len(words) == 1 else words[0] ^ stir(words[1], _MIX[1]))


def shares_of(ids: pa.Array, salt: str) -> NDArray[np.float64]:
    """Return a number in [0, 1) per id (texts, or integers as their text), uniform and stable.

    Another ``salt`` gives another assignment of the same ids. A null gives NaN.

    >>> shares_of(pa.array([17, None]), "demo").round(4).tolist()
    [0.7585, nan]
    >>> shares_of(pa.array(["17"]), "demo").round(4).tolist()
    [0.7585]
    """
    texts = ids.cast(pa.string())
    hashes = mix(hashes_of(texts.fill_null("")) ^ _name_hash(salt))
    shares: NDArray[np.float64] = (hashes >> np.uint64(11)).astype(np.float64) * 2.0**-53
    shares[~as_numpy(texts.is_valid())] = np.nan
    return shares


def hashes_at(hashes: Words, times: NDArray[np.float64]) -> Words:
    """Return the hashes of ids, each combined with a time: a draw per row, from its id and time alone."""
    return stir(hashes ^ stir((times + 0.0).view(np.uint64)))  # -0.0 + 0.0 is 0.0


def stir(words: Words, factor: int = _MIX[0]) -> Words:
    """Map words to pseudo-random words; the map is a bijection."""
    words = words * np.uint64(factor)
    words ^= words >> np.uint64(31)
    words *= np.uint64(_ODD)
    return words ^ (words >> np.uint64(29))


def _fold(words: Words, first: NDArray[Any], length: NDArray[Any]) -> tuple[Words, Words]:
    low, high = length.astype(np.uint64), ~length.astype(np.uint64)
    shortest = int(length.min())
    for position in range(0, int(length.max()), 8):
        active: Any = slice(None) if shortest > position else np.flatnonzero(length > position)
        each = words[first[active] + position] & _LEADING[np.minimum(length[active] - position, 8)]
        low[active] = stir(low[active] ^ each)
        high[active] = stir(high[active] ^ each, _MIX[1])
    return low, (high >> np.uint64(8)) | np.uint64((_SHORT + 1) << 56)


def _stir_one(word: int, factor: int) -> int:
    word = word * factor & _BITS64
    word = (word ^ word >> 31) * _ODD & _BITS64
    return word ^ word >> 29
