"""From item ids to their positions in a parameter set, by a hash table that is three NumPy arrays.

Arrow and pandas can look ids up in bulk, but rebuild their table for each call or hold a Python object per
id. This one is built once, needs about 30 bytes an item, and answers one id in microseconds and a batch at a
few dozen nanoseconds an id.

An id becomes a *key* of one or two 64-bit words. An integer is its own key, and so is a text of up to 15
bytes of UTF-8 (its bytes and its length): equal keys are equal ids. Longer texts are folded into 128 bits, so
that two of them share a key with a probability of about 2⁻¹²⁸. Keys are stored in the order of their bucket
(the upper bits of a multiplicative hash); ``start`` says where each bucket begins. A bucket that does not
hold the key cannot give a false answer, because every candidate is compared with the whole key.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slc_ops.base.errors import InputError
from slc_ops.rows.buffers import as_arrow, as_numpy
from slc_ops.rows.columns import as_ids

Words = NDArray[np.uint64]

_BITS64 = (1 << 64) - 1
_ODD = 0x9E3779B97F4A7C15  # 2⁶⁴ divided by the golden ratio
_MIX = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_SHORT = 15
_SLICE = 1 << 14
_FEW = 8
_MASKS = np.array([(1 << (8 * count)) - 1 for count in range(9)], dtype=np.uint64)


class ItemIndex:
    """Where each known item stands; unknown items are at −1.

    ``order`` lists the given ids in the order in which the index stores them: the answer of
    :meth:`positions` is a position in that order.

    >>> index = ItemIndex(pa.array(["a", "b"]))
    >>> index.order[index.positions(["b", "a"])].tolist(), index.positions(["x"]).tolist()
    ([1, 0], [-1])
    """

    def __init__(self, ids: pa.Array) -> None:
        self.type = ids.type
        keys = keys_of(ids)
        self._shift = 64 - max(1, (2 * len(ids)).bit_length())
        bucket = _bucket(keys, self._shift)
        # Bucket and position in one number: sorting numbers is faster than sorting positions by buckets.
        packed = np.sort(bucket << 32 | np.arange(len(ids)))
        self.order = (packed & 0xFFFFFFFF).astype(np.int32)
        counts = np.bincount(bucket, minlength=1 << (64 - self._shift))
        self._start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        self._longest = int(counts.max(initial=0))
        # One more key than there are ids: an empty last bucket begins there.
        self._keys = [np.append(words[self.order], np.uint64(0)) for words in keys]
        self._count = len(ids)

    def __len__(self) -> int:
        return self._count

    def positions(self, ids: Any) -> NDArray[np.int32]:
        """The position of every id in ``order``, −1 for unknown ones."""
        if isinstance(ids, list | tuple) and len(ids) <= _FEW:
            return np.array([self.position(item) for item in ids], dtype=np.int32)
        column = self._as_column(ids)
        if pa.types.is_dictionary(column.type):
            return self.positions(column.dictionary).take(as_numpy(column.indices))
        result = np.empty(len(column), np.int32)
        for first in range(0, len(column), _SLICE):
            result[first : first + _SLICE] = self._find(keys_of(column.slice(first, _SLICE)))
        return result

    def position(self, item: Any) -> int:
        """The position of one id, −1 when it is unknown."""
        key = self._key_of(item)
        hashed = (
            key[0] * _ODD if len(key) == 1 else (key[0] ^ (key[1] * _MIX[0] & _BITS64)) * _ODD
        ) & _BITS64
        bucket = hashed >> self._shift
        for position in range(int(self._start[bucket]), int(self._start[bucket + 1])):
            if all(int(words[position]) == word for words, word in zip(self._keys, key, strict=True)):
                return position
        return -1

    def _find(self, keys: list[Words]) -> NDArray[np.int32]:
        bucket = _bucket(keys, self._shift)
        position = self._start[bucket]
        hit = self._equal(keys, position)
        found = np.where(hit, position, np.int32(-1))
        if self._longest > 1:
            missed = np.flatnonzero(~hit)
            for step in range(1, self._longest):
                missed = missed[self._start[bucket[missed] + 1] - self._start[bucket[missed]] > step]
                candidate = self._start[bucket[missed]] + step
                hit = self._equal([words[missed] for words in keys], candidate)
                found[missed[hit]] = candidate[hit]
        return found if self._count else np.full(len(found), -1, np.int32)

    def _equal(self, keys: list[Words], position: NDArray[Any]) -> NDArray[np.bool_]:
        equal: NDArray[np.bool_] = self._keys[0][position] == keys[0]
        return equal if len(keys) == 1 else equal & (self._keys[1][position] == keys[1])

    def _as_column(self, ids: Any) -> pa.Array:
        if isinstance(ids, pa.ChunkedArray):
            ids = ids.combine_chunks()
        elif not isinstance(ids, pa.Array):
            try:
                plain = isinstance(ids, np.ndarray) and ids.dtype.kind == "i"
                ids = as_arrow(ids) if plain else pa.array(ids)
            except (pa.ArrowException, TypeError) as error:
                raise InputError(f"item ids cannot be understood: {error}") from None
        if len(ids) == 0:
            return pa.nulls(0, self.type)
        column = as_ids(ids, "item_id", 0)
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if kind != self.type:
            raise self._wrong_type(str(kind))
        return column

    def _key_of(self, item: Any) -> tuple[int, ...]:
        if self.type == pa.int64():
            if not isinstance(item, int | np.integer) or isinstance(item, bool):
                raise self._wrong_type(type(item).__name__)
            if not -(1 << 63) <= item < 1 << 63:  # its lower bits may be another item's
                raise InputError(f"item id {item} does not fit 64 bits; expected an integer of the log")
            return (int(item) & _BITS64,)
        if not isinstance(item, str):
            raise self._wrong_type(type(item).__name__)
        return _text_key(item.encode())

    def _wrong_type(self, found: str) -> InputError:
        return InputError(
            f"item ids are of type {found}, but the parameter set knows items of type {self.type}; cast the "
            "column 'item_id'"
        )


def keys_of(ids: pa.Array) -> list[Words]:
    """The keys of integers (one word each) or of texts (two words each)."""
    if ids.type == pa.int64():
        return [as_numpy(ids).view(np.uint64)]
    offsets = np.frombuffer(ids.buffers()[1], np.int32)[ids.offset : ids.offset + len(ids) + 1]
    begin, length = int(offsets[0]), np.diff(offsets)
    first, end = offsets[:-1].astype(np.intp) - begin, int(offsets[-1]) - begin
    data = np.zeros(end + 8, np.uint8)  # so that a word may be read at the last byte
    if end:
        data[:end] = np.frombuffer(ids.buffers()[2], np.uint8)[begin : begin + end]
    # The eight bytes at *any* position as a little-endian word.
    word_at = np.ndarray((end + 1,), "<u8", buffer=data, strides=(1,))
    low = word_at[first] & _MASKS[np.minimum(length, 8)]
    high = word_at[np.minimum(first + 8, end)] & _MASKS[np.clip(length - 8, 0, 7)]
    high |= np.minimum(length, _SHORT + 1).astype(np.uint64) << np.uint64(56)
    long = np.flatnonzero(length > _SHORT)
    if len(long) == len(length) > 0:
        return list(_fold(word_at, first, length))
    if len(long):
        low[long], high[long] = _fold(word_at, first[long], length[long])
    return [low, high]


def _fold(word_at: Words, first: NDArray[Any], length: NDArray[Any]) -> tuple[Words, Words]:
    low, high = length.astype(np.uint64), ~length.astype(np.uint64)
    shortest = int(length.min())
    for position in range(0, int(length.max()), 8):
        active: Any = slice(None) if shortest > position else np.flatnonzero(length > position)
        words = word_at[first[active] + position] & _MASKS[np.minimum(length[active] - position, 8)]
        low[active] = stir(low[active] ^ words)
        high[active] = stir(high[active] ^ words, _MIX[1])
    return low, (high >> np.uint64(8)) | np.uint64((_SHORT + 1) << 56)


def hashes_of(ids: pa.Array) -> Words:
    """One number per id that looks like chance and depends on the id alone; no two integers share one.

    >>> hashes = hashes_of(pa.array(["b", "a"])), hashes_of(pa.array(["a", "b", "a"]).dictionary_encode())
    >>> (hashes[0][[1, 0, 1]] == hashes[1]).tolist()
    [True, True, True]
    """
    if pa.types.is_dictionary(ids.type):
        return hashes_of(ids.dictionary).take(as_numpy(ids.indices))
    words = keys_of(ids)
    return stir(words[0] if len(words) == 1 else words[0] ^ stir(words[1], _MIX[1]))


def stir(words: Words, factor: int = _MIX[0]) -> Words:
    """Other words that look like chance; no two words become one."""
    words = words * np.uint64(factor)
    words ^= words >> np.uint64(31)
    words *= np.uint64(_ODD)
    return words ^ (words >> np.uint64(29))


def _text_key(text: bytes) -> tuple[int, int]:
    """The same key for a single text."""
    if len(text) <= _SHORT:
        return int.from_bytes(text[:8], "little"), int.from_bytes(text[8:], "little") | len(text) << 56
    low, high = len(text), ~len(text) & _BITS64
    for position in range(0, len(text), 8):
        word = int.from_bytes(text[position : position + 8], "little")
        low, high = _stir_one(low ^ word, _MIX[0]), _stir_one(high ^ word, _MIX[1])
    return low, high >> 8 | (_SHORT + 1) << 56


def _stir_one(word: int, factor: int) -> int:
    word = word * factor & _BITS64
    word = (word ^ word >> 31) * _ODD & _BITS64
    return word ^ word >> 29


def _bucket(keys: list[Words], shift: int) -> NDArray[np.intp]:
    mixed = keys[0] if len(keys) == 1 else keys[0] ^ (keys[1] * np.uint64(_MIX[0]))
    return ((mixed * np.uint64(_ODD)) >> np.uint64(shift)).astype(np.intp)
