"""Identifiers as dictionary codes, learned while the rows stream by.

Each piece of the column brings its own small dictionary. Hashing every piece against all identifiers seen
so far would cost their number each time, so pieces get *provisional* codes (their position in the
concatenation of all dictionaries) and are settled together when enough of them wait.

Integers that lie close together need no hashing at all: a table from value to code does it.
"""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slc_ops.base.errors import InputError
from slc_ops.rows.buffers import as_arrow, as_numpy

_SETTLE_AT = 1 << 21  # dictionary entries that may wait before they are settled
_TABLE_LIMIT = 1 << 24  # widest range of integers for which a table (64 MB) is kept

Codes = NDArray[np.int32]


class IdEncoder:
    """Codes in the order in which identifiers appear.

    >>> encoder = IdEncoder()
    >>> first = encoder.add(pa.array(["b", "a", "b"]))
    >>> second = encoder.add(pa.array(["a", "c"]))
    >>> settled = encoder.settle()
    >>> settled[first].tolist(), settled[second].tolist()
    ([0, 1, 0], [1, 2])
    >>> encoder.values.to_pylist()
    ['b', 'a', 'c']
    """

    def __init__(self) -> None:
        self._table: _IntegerTable | None = _IntegerTable()
        self._pieces: list[pa.Array] = []
        self._waiting = 0
        self._settled = 0

    def add(self, column: pa.Array) -> Codes:
        """Provisional codes of one piece; :meth:`settle` says what they mean."""
        if self._table is not None:
            codes = self._table.codes(column)
            if codes is not None:
                return codes
            self._leave_table()
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        elif len(column.dictionary) > 2 * len(column):
            # A slice of a big row group carries the whole group's dictionary: keep what it uses.
            column = _compacted(column)
        base = self._settled + self._waiting
        self._pieces.append(column.dictionary)
        self._waiting += len(column.dictionary)
        codes = as_numpy(column.indices).astype(np.int32, copy=False)
        return codes + np.int32(base) if base else codes

    @property
    def overdue(self) -> bool:
        """Whether enough entries wait to be settled."""
        return self._waiting > max(_SETTLE_AT, 2 * self._settled)

    def settle(self) -> Codes | None:
        """The final code of every provisional one, or None where all are final already."""
        if self._table is not None or self._waiting == 0:
            return None
        if len({piece.type for piece in self._pieces}) > 1:
            raise InputError(
                "identifiers are integers in one part of the input and text in another; write them in one way"
            )
        everything = pa.concat_arrays(self._pieces).dictionary_encode()
        self._pieces = [everything.dictionary]
        self._settled, self._waiting = len(everything.dictionary), 0
        return as_numpy(everything.indices).astype(np.int32, copy=False)

    @property
    def values(self) -> pa.Array:
        """All identifiers; code ``k`` means ``values[k]``. Call :meth:`settle` first."""
        return self._table.values if self._table is not None else self._pieces[0]

    def _leave_table(self) -> None:
        known = self._table.values if self._table is not None else as_arrow(np.empty(0, np.int64))
        self._table = None
        if len(known):
            self._pieces, self._settled = [known], len(known)


class _IntegerTable:
    """Codes of integers within a narrow range, by one table look-up per row."""

    def __init__(self) -> None:
        self._low, self._codes = 0, np.empty(0, np.int32)
        self._values: list[NDArray[np.int64]] = []
        self._count = 0

    def codes(self, column: pa.Array) -> Codes | None:
        """Final codes, or None when the column is not of integers in a narrow range."""
        if not pa.types.is_integer(column.type) or len(column) == 0:
            return None if len(column) else np.empty(0, np.int32)
        numbers = as_numpy(column)
        if not self._cover(int(numbers.min()), int(numbers.max())):
            return None
        indices = numbers - numbers.dtype.type(self._low) if self._low else numbers
        found: Codes = self._codes[indices]
        if found.min() < 0:
            self._learn(indices[found < 0])
            found = self._codes[indices]
        return found

    @property
    def values(self) -> pa.Array:
        return as_arrow(np.concatenate(self._values) if self._values else np.empty(0, np.int64))

    def _cover(self, low: int, high: int) -> bool:
        if self._count:
            low, high = min(low, self._low), max(high, self._low + len(self._codes) - 1)
        if high - low >= _TABLE_LIMIT:
            return False
        if low < self._low or high >= self._low + len(self._codes) or not self._count:
            wider = np.full(high - low + 1, -1, np.int32)
            wider[self._low - low : self._low - low + len(self._codes)] = self._codes
            self._low, self._codes = low, wider
        return True

    def _learn(self, indices: NDArray[np.int64]) -> None:
        # Written backwards, each entry ends up with the number of its first row: no sort is needed.
        rows = np.arange(len(indices), dtype=np.int32)
        self._codes[indices[::-1]] = rows[::-1]
        fresh = indices[self._codes[indices] == rows]
        self._codes[fresh] = np.arange(self._count, self._count + len(fresh), dtype=np.int32)
        self._values.append(fresh + self._low)
        self._count += len(fresh)


def _compacted(column: pa.DictionaryArray) -> pa.DictionaryArray:
    used = column.indices.dictionary_encode()
    return pa.DictionaryArray.from_arrays(used.indices, column.dictionary.take(used.dictionary))
