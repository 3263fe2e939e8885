"""Ids of items, users, groups and events (texts or integers), and the index that maps them to positions.

Arrow numbers the ids of a log (:func:`numbered`). Arrow and pandas can also look ids up in bulk, but rebuild
their table for each call or hold a Python object per id. :class:`IdIndex` is three NumPy arrays of about 30
bytes an id. It finds one id in microseconds and a batch at a few dozen nanoseconds an id.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slc_ops.base.buffers import as_arrow, as_numpy
from slc_ops.base.errors import ColumnError, InputError, refuse_rows
from slc_ops.base.hashing import Words, bucket_of_key, bucket_of_keys, key_of, keys_of
from slc_ops.base.utf8 import require_utf8

Codes = NDArray[np.int32]

_INTEGER = r"(0|-?[1-9][0-9]{0,17})"  # canonical decimal form, within 64 bits
_SLICE = 1 << 14
_FEW = 8


class IdIndex:
    """Map ids to positions, numbered in order of first appearance; an unknown id has position −1.

    ``name`` is the column name in error messages. A hash table in NumPy arrays: keys sorted by bucket, and
    the start of each bucket. A lookup compares the whole key with every candidate of the bucket, so it has no
    false positives. An integer and its text are the same id.

    >>> index = IdIndex(pa.array(["a", "b"]))
    >>> index.positions(["b", "x"]).tolist(), index.position("a")
    ([1, -1], 0)
    >>> IdIndex(pa.array([7, 9])).positions(["9", "09", "x"]).tolist()
    [1, -1, -1]
    """

    def __init__(self, ids: pa.Array, name: str = "item_id") -> None:
        self._name, self._type = name, pa.int64() if ids.type == pa.int64() else pa.string()
        keys = keys_of(ids)
        self._shift = 64 - max(1, (2 * len(ids)).bit_length())
        bucket = bucket_of_keys(keys, self._shift)
        # Bucket and position in one number: sorting numbers is faster than sorting positions by buckets.
        packed = np.sort(bucket << 32 | np.arange(len(ids)))
        order = (packed & 0xFFFFFFFF).astype(np.int32)
        counts = np.bincount(bucket, minlength=1 << (64 - self._shift))
        self._start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        # One key more than ids: an empty last bucket starts there.
        self._keys = [np.append(words[order], np.uint64(0)) for words in keys]
        self._order = np.append(order, np.int32(-1))

    def positions(self, ids: Any) -> Codes:
        """Return the position of every id, −1 for unknown ones and nulls."""
        if isinstance(ids, list | tuple) and len(ids) <= _FEW:
            return np.array([self.position(one) for one in ids], dtype=np.int32)
        try:
            column, known = _without_nulls(ids)
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise InputError(f"{self._words} cannot be understood: {error}") from None
        result = np.full(len(ids), -1, np.int32)
        if len(column):
            if self._type == pa.string() and pa.types.is_integer(_value_type(column)):
                column = as_text(column)
            result[known] = self._find_any(as_ids(column, self._name, 0))
        return result

    def position(self, one: Any) -> int:
        """Return the position of one id, −1 when it is unknown or None."""
        checked = self._checked(one)
        if checked is None:
            return -1
        key = key_of(checked)
        bucket = bucket_of_key(key, self._shift)
        low, high = self._keys[0], self._keys[-1]
        for place in range(self._start.item(bucket), self._start.item(bucket + 1)):
            if low.item(place) == key[0] and high.item(place) == key[-1]:
                return int(self._order[place])
        return -1

    def find(self, column: pa.Array) -> Codes:
        """Return positions without validation of a column: the index's type, no nulls, no dictionary."""
        slices = (column.slice(first, _SLICE) for first in range(0, len(column), _SLICE))
        return np.concatenate([np.empty(0, np.int32), *(self._find(keys_of(each)) for each in slices)])

    def _find(self, keys: list[Words]) -> Codes:
        bucket = bucket_of_keys(keys, self._shift)
        place = self._start.take(bucket)
        hit = self._equal(keys, place)
        found: Codes = self._order.take(place)
        if hit.all():
            return found
        left = np.flatnonzero(~hit)
        found[left] = -1
        end, place = self._start.take(bucket[left] + 1), place[left]
        while True:  # the next candidate of each bucket, until the buckets end
            place += 1
            more = place < end
            left, place, end = left[more], place[more], end[more]
            if not len(left):
                return found
            hit = self._equal([words[left] for words in keys], place)
            found[left[hit]] = self._order[place[hit]]
            left, place, end = left[~hit], place[~hit], end[~hit]

    def _equal(self, keys: list[Words], place: NDArray[Any]) -> NDArray[np.bool_]:
        equal: NDArray[np.bool_] = self._keys[0].take(place) == keys[0]
        return equal if len(keys) == 1 else equal & (self._keys[1].take(place) == keys[1])

    def _find_any(self, column: pa.Array) -> Codes:
        """Return positions in a column of ids; an index of integers knows the texts of its integers."""
        if pa.types.is_dictionary(column.type):
            return self._find_any(column.dictionary).take(as_numpy(column.indices))
        if column.type == self._type:
            return self.find(column)
        whole = pc.match_substring_regex(column, f"^{_INTEGER}$")
        result = np.full(len(column), -1, np.int32)
        result[as_numpy(whole)] = self.find(column.filter(whole).cast(pa.int64()))
        return result

    def _checked(self, one: Any) -> int | str | None:
        """Return an id in the type of the index; None when the index cannot contain it."""
        numbers = self._type == pa.int64()
        if one is None:
            return None
        if isinstance(one, str):
            if not numbers:
                return one
            one.encode()  # raises for lone surrogates, as an index of texts does
            return int(one) if re.fullmatch(_INTEGER, one) else None
        if not isinstance(one, int | np.integer) or isinstance(one, bool):
            raise self._wrong_type(type(one).__name__)
        if not -(1 << 63) <= one < 1 << 63:  # its lower 64 bits may equal another id
            raise InputError(f"{self._words[:-1]} {one} does not fit 64 bits; expected an integer of the log")
        return int(one) if numbers else str(one)

    @property
    def _words(self) -> str:
        return self._name.removesuffix("_id") + " ids"

    def _wrong_type(self, found: str) -> InputError:
        known = self._name.removesuffix("_id") + "s"
        return InputError(
            f"{self._words} are of type {found}, but the parameter set has {known} of type {self._type}; "
            f"cast the column {self._name!r}"
        )


def numbered(columns: Sequence[pa.Array]) -> tuple[pa.Array, list[Codes]]:
    """Return the distinct ids of some columns, in order of first appearance, and the number of each id.

    Where some columns hold integers and others texts, an integer and its text are the same id.

    >>> ids, codes = numbered([pa.array(["a", "b", "a"]), pa.array(["c", "b"])])
    >>> ids.to_pylist(), [each.tolist() for each in codes]
    (['a', 'b', 'c'], [[0, 1, 0], [2, 1]])
    """
    if len({column.type for column in columns}) > 1:
        columns = [column.cast(pa.string()) for column in columns]
    encoded = pa.chunked_array(columns).dictionary_encode().chunks  # without the empty ones
    codes = np.concatenate([np.empty(0, np.int32), *(as_numpy(chunk.indices) for chunk in encoded)])
    ids = encoded[0].dictionary if encoded else columns[0]
    return ids, np.split(codes, np.cumsum([len(column) for column in columns])[:-1])


def as_ids(column: pa.Array, name: str, first_row: int) -> pa.Array:
    """Return ids as ``int64`` or ``string`` (dictionaries stay encoded); raise for other types and nulls."""
    kind = _value_type(column)
    if pa.types.is_integer(kind):
        wanted = pa.int64()
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        wanted = pa.string()
    elif pa.types.is_null(kind):
        raise ColumnError(name, "it has only nulls; expected text or integers")
    else:
        raise ColumnError(name, _no_id(column, kind))
    require_utf8(name, column)
    if column.null_count or (pa.types.is_dictionary(column.type) and column.dictionary.null_count):
        refuse_rows(~as_numpy(column.is_valid()), name, "is null", first_row)
    if pa.types.is_dictionary(column.type):
        if kind != wanted:
            values = _cast(column.dictionary, wanted, name)
            column = pa.DictionaryArray.from_arrays(column.indices, values)
        return column
    return column if kind == wanted else _cast(column, wanted, name)


def _without_nulls(ids: Any) -> tuple[pa.Array, NDArray[np.bool_] | slice]:
    """Return the ids that are not null as a column, and their rows."""
    if isinstance(ids, np.ndarray) and ids.dtype.kind in "iu":
        return as_arrow(ids), slice(None)
    if isinstance(ids, list | tuple) and set(map(type, ids)) - {type(None)} in ({str}, {int}):
        known = [each for each in ids if each is not None]
        rows = slice(None) if len(known) == len(ids) else np.array([each is not None for each in ids])
        return _texts(known) if isinstance(known[0], str) else as_arrow(np.array(known, np.int64)), rows
    column = ids.combine_chunks() if isinstance(ids, pa.ChunkedArray) else ids
    if not isinstance(column, pa.Array):
        column = pa.array(ids, from_pandas=True)
    if not column.null_count:
        return column, slice(None)
    if pa.types.is_string_view(column.type):  # the filter kernel lacks this type
        column = column.cast(pa.string())
    valid = column.is_valid()
    return column.filter(valid), as_numpy(valid)


def _texts(values: list[str]) -> pa.Array:
    """Build a string array; ``pa.array`` would import pandas to detect pandas input."""
    joined = "".join(values)
    data = joined.encode()
    sizes = map(len, values) if len(data) == len(joined) else (len(each.encode()) for each in values)
    ends = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.fromiter(sizes, np.int32, len(values)), out=ends[1:])
    return pa.StringArray.from_buffers(len(values), pa.py_buffer(ends), pa.py_buffer(data))


def as_text(column: pa.Array) -> pa.Array:
    """Return ids as texts; a dictionary stays encoded."""
    if pa.types.is_dictionary(column.type):
        return pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(pa.string()))
    return column.cast(pa.string())


def example_of(column: pa.Array) -> str:
    """Return the first value that is not null as "for example …", for error messages."""
    value = next((each for each in column[:1000].to_pylist() if each is not None), None)
    return f"for example {str(value)[:40]!r}" if isinstance(value, str) else f"for example {value}"


def _value_type(column: pa.Array) -> pa.DataType:
    return column.type.value_type if pa.types.is_dictionary(column.type) else column.type


def _no_id(column: pa.Array, kind: pa.DataType) -> str:
    """Return the reason why a column cannot hold ids, with the remedy."""
    found = f"it is of type {kind}, {example_of(column)}; expected text or integers"
    if pa.types.is_floating(kind) and (pc.max(pc.abs(column)).as_py() or 0) >= 2.0**63:
        return f"{found}: ids beyond 64 bits lose their last digits as numbers, write them as text"
    return f"{found} (cast it first)"


def _cast(values: pa.Array, wanted: pa.DataType, name: str) -> pa.Array:
    try:
        return pc.cast(values, wanted)
    except pa.ArrowInvalid as error:
        raise ColumnError(
            name, f"it cannot be read as {wanted} ({error}); ids beyond 64 bits have to be text"
        ) from None
