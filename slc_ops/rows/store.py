"""Columns of a known length, in memory or, beyond a budget, in an anonymous temporary file.

A fit passes over the rows several times. Decoding the source each time would cost more than the fit, so the
few bytes per row that it needs are stored: in memory within the budget, otherwise in an unlinked file, which
the operating system caches and removes with the process.
"""

import os
import tempfile
from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_CHUNK = 1 << 20


def memory_budget() -> int:
    """Return the bytes of row data that a log may keep in memory: ``SLC_OPS_MEMORY_MB``, default 512 MB."""
    from slc_ops.settings.environment import RowVariables

    return RowVariables.read().memory_mb << 20


class ColumnStore:
    """Fixed-size columns that are written once, span by span, and read by many threads.

    >>> store = ColumnStore(3, {"label": np.int8}, budget=0)
    >>> store.write("label", 0, np.array([1, 0, 1]))
    >>> store.read("label", 1, 3).tolist(), store.spilled
    ([0, 1], True)
    >>> store.part(2, 3).read("label", 0, 1).tolist()
    [1]
    """

    def __init__(self, n_rows: int, types: Mapping[str, DTypeLike], budget: float) -> None:
        self.n_rows, self._begin = n_rows, 0
        self._types = {name: np.dtype(kind) for name, kind in types.items()}
        self.nbytes = n_rows * sum(kind.itemsize for kind in self._types.values())
        self.spilled = self.nbytes > budget
        self._arrays: dict[str, NDArray[Any]] = {}
        self._files: dict[str, Any] = {}
        for name, kind in self._types.items():
            if self.spilled:
                # Stays open: the file disappears with its last reader.
                file = tempfile.TemporaryFile(prefix="slc-ops-", suffix=f".{name}")  # noqa: SIM115
                # A full disk is an error now, not a signal when the rows are written.
                os.posix_fallocate(file.fileno(), 0, n_rows * kind.itemsize)
                self._files[name] = file
            else:
                self._arrays[name] = np.empty(n_rows, kind)

    @classmethod
    def of(cls, columns: Mapping[str, NDArray[Any]]) -> "ColumnStore":
        """Create a store of columns that are in memory."""
        types = {name: values.dtype for name, values in columns.items()}
        store = cls(0, types, 0)
        store.n_rows, store._arrays = len(next(iter(columns.values()))), dict(columns)
        store.nbytes = sum(values.nbytes for values in columns.values())
        return store

    def part(self, first: int, last: int) -> "ColumnStore":
        """Return rows ``first`` to ``last`` (exclusive) as a store that shares memory and files."""
        part = copy(self)
        part.n_rows, part._begin = last - first, self._begin + first
        return part

    def write(self, name: str, first: int, values: NDArray[Any]) -> None:
        """Write ``values`` at rows ``first, first + 1, …``."""
        self._rows(name, first, len(values))[:] = values

    def read(self, name: str, first: int, last: int) -> NDArray[Any]:
        """Return rows ``first`` to ``last`` (exclusive), as a view of memory or of the file."""
        return self._rows(name, first, min(last, self.n_rows) - first)

    def _rows(self, name: str, first: int, count: int) -> NDArray[Any]:
        first += self._begin
        if not self.spilled:
            return self._arrays[name][first : first + count]
        kind = self._types[name]
        # Only these rows are mapped, while they are in use: all pages would count as this process's memory.
        return np.asarray(np.memmap(self._files[name], kind, "r+", first * kind.itemsize, count))

    def translated(self, name: str, mapping: NDArray[Any]) -> "ColumnStore":
        """Return a new store of one column, with every code ``c`` replaced by ``mapping[c]``."""
        budget = self.n_rows * self._types[name].itemsize if not self.spilled else 0
        copied = ColumnStore(self.n_rows, {name: self._types[name]}, budget)
        for start in range(0, self.n_rows, _CHUNK):
            copied.write(name, start, mapping[self.read(name, start, min(start + _CHUNK, self.n_rows))])
        return copied
