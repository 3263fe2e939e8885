"""Columns of a known length, in memory or, beyond a budget, in an anonymous temporary file.

A fit passes over the rows several times. Decoding the source each time would cost more than the fit, so the
few bytes per row that it needs are stored: in memory within the budget, otherwise in an unlinked file, which
the operating system caches and removes with the process.
"""

import os
import tempfile
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_CHUNK = 1 << 20


def memory_budget() -> int:
    """Return the bytes of row data that a log may keep in memory: ``SLC_OPS_MEMORY_MB``, default 512 MB."""
    from slc_ops.settings.environment import RowVariables

    return RowVariables.read().memory_mb << 20


class Column:
    """A column of fixed-size values that is written once, span by span, and read by many threads.

    >>> column = Column(3, np.int8, spilled=True)
    >>> column.write(0, np.array([1, 0, 1]))
    >>> column.read(1, 3).tolist(), column.part(2, 3).read(0, 1).tolist()
    ([0, 1], [1])
    """

    def __init__(self, n_rows: int, kind: DTypeLike, *, spilled: bool) -> None:
        self.n_rows, self.spilled, self._begin = n_rows, spilled, 0
        self._kind = np.dtype(kind)
        if spilled:
            # Stays open: the file disappears with its last reader.
            self._file = tempfile.TemporaryFile(prefix="slc-ops-")  # noqa: SIM115
        else:
            self._array: NDArray[Any] = np.empty(n_rows, kind)

    @classmethod
    def of(cls, values: NDArray[Any]) -> "Column":
        """Create a column of values that are in memory."""
        column = cls(0, values.dtype, spilled=False)
        column.n_rows, column._array = len(values), values
        return column

    @property
    def nbytes(self) -> int:
        """Return the size of the values."""
        return self.n_rows * self._kind.itemsize

    def part(self, first: int, last: int) -> "Column":
        """Return rows ``first`` to ``last`` (exclusive) as a column that shares memory or file."""
        part = copy(self)
        part.n_rows, part._begin = last - first, self._begin + first
        return part

    def write(self, first: int, values: NDArray[Any]) -> None:
        """Write ``values`` at rows ``first, first + 1, …``."""
        first += self._begin
        if not self.spilled:
            self._array[first : first + len(values)] = values
            return
        data = np.ascontiguousarray(values, dtype=self._kind).data.cast("B")
        position = first * self._kind.itemsize
        while data:
            written = os.pwrite(self._file.fileno(), data, position)
            data, position = data[written:], position + written

    def read(self, first: int, last: int) -> NDArray[Any]:
        """Return rows ``first`` to ``last`` (exclusive): a view of memory, or a new array from the file.

        Mapping the file instead costs a third more CPU time in a fit (a page fault per page and pass).
        """
        first, last = first + self._begin, min(last, self.n_rows) + self._begin
        if not self.spilled:
            return self._array[first:last]
        result = np.empty(last - first, self._kind)
        data, position = result.data.cast("B"), first * self._kind.itemsize
        while data:
            count = os.preadv(self._file.fileno(), [data], position)
            if count == 0:
                raise OSError("the temporary file of a column ended early")
            data, position = data[count:], position + count
        return result

    def translated(self, mapping: NDArray[Any]) -> "Column":
        """Return a new column, with every code ``c`` replaced by ``mapping[c]``."""
        copied = Column(self.n_rows, self._kind, spilled=self.spilled)
        for start in range(0, self.n_rows, _CHUNK):
            copied.write(start, mapping[self.read(start, start + _CHUNK)])
        return copied
