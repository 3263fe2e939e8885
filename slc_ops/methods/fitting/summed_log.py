"""A log of windows with known item sums; rows are read only if a method needs them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slc_ops.base.ids import numbered
from slc_ops.numerics.kernels import Sums
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.reading import Source, joined


@dataclass(frozen=True)
class ItemSums:
    """Per item, in the order of its first row: number of rows, and Σw, Σwy, Σwp, Σwp(1−p) at η₀."""

    items: pa.Array
    rows: NDArray[np.int64]
    sums: Sums


class SummedLog(InteractionLog):
    """An interaction log with its item sums.

    ``base`` and ``rescal`` depend on the sums alone and never read a row, like the first step of every
    per-item method. Links, converged offsets and time bins need the rows, which are then read once, together
    with their times.
    """

    def __init__(self, windows: Sequence[tuple[Source, ItemSums]]) -> None:
        kept = add_windows([sums for _, sums in windows])
        super().__init__(joined([source for source, _ in windows], {}), items=kept.items, times=True)
        self.item_sums = kept.sums
        self.item_counts = kept.rows
        self._windows = list(windows)

    def cut_last_window(self) -> tuple["SummedLog", InteractionLog]:
        """Return all windows but the last one, and the last one; rows in memory are not read again.

        The items of the earlier windows are the first ones of all, in the same order, so codes do not change.
        Windows whose columns differ are read separately.
        """
        earlier, (last, _) = SummedLog(self._windows[:-1]), self._windows[-1]
        if not (earlier.columns == dict(last.types) == self.columns):
            return earlier, InteractionLog(last)
        return earlier.within(self, 0), InteractionLog(last, items=self.items).within(self, earlier.n_rows)

    def last_windows(self, count: int) -> "SummedLog":
        """Return the last windows as a log of their own; rows in memory are not read again.

        Windows whose columns differ from the others' are read separately.
        """
        last = SummedLog(self._windows[-count:])
        return last.within(self, self.n_rows - last.n_rows) if last.columns == self.columns else last


def add_windows(windows: Sequence[ItemSums]) -> ItemSums:
    """Return the sums of several windows, added from the first to the last.

    Items keep the order of their first row, as if all rows had been read window by window.

    >>> def window(items, rows, values):
    ...     return ItemSums(pa.array(items), np.array(rows), Sums(*(np.array(values) for _ in range(4))))
    >>> both = add_windows([window(["b", "a"], [2, 1], [2.0, 1.0]), window(["c", "a"], [1, 1], [0.5, 3.0])])
    >>> both.items.to_pylist(), both.rows.tolist(), both.sums.y.tolist()
    (['b', 'a', 'c'], [2, 2, 1], [2.0, 4.0, 0.5])
    """
    items, codes = numbered([window.items for window in windows])
    size = len(items)
    rows, sums = np.zeros(size, np.int64), Sums(*(np.zeros(size) for _ in range(4)))
    for window, indices in zip(windows, codes, strict=True):
        rows[indices] += window.rows
        for total, part in zip(vars(sums).values(), vars(window.sums).values(), strict=True):
            total[indices] += part
    return ItemSums(items, rows, sums)
