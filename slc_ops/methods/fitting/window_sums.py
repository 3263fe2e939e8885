"""A log of windows with their item sums, stored beside the rows: a refresh reads only new windows.

Sums over rows are additive, so the sums of a calibration are those of its windows, added from the oldest to
the newest. They are *always* computed that way, from stored sums or from rows, so that a refresh with stored
sums gives the same bytes as one without.

Each window has one small Parquet file, with checksums, under a key of the window's content and the code.
:func:`keep_sums` replaces a file with another key, and a plan does not use it. A file also states the digest
of its log's footers: the sums of other rows, and unreadable ones, count as absent.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from slc_ops.base.buffers import as_arrow, as_numpy
from slc_ops.base.digests import digest_bytes
from slc_ops.base.errors import InputError
from slc_ops.base.files import replacing
from slc_ops.base.ids import numbered
from slc_ops.base.parquet import parts_of
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.numerics.kernels import Sums
from slc_ops.rows.engine import LOCAL, Engine
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.reading import Source, joined, open_source
from slc_ops.rows.rows import Log

_KEY, _FOOTERS = b"slc_ops.sums_of", b"slc_ops.footers"
_PARTS = ("n", "y", "p", "fisher")


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


def sums_path(log: Path) -> Path:
    """Return the path of the sums of a window's log: beside it."""
    return log.with_suffix(".sums.parquet")


def keep_sums(log: Path, key: str, engine: Engine = LOCAL) -> Path:
    """Sum a window's rows and store the sums, unless they exist under the same key; return the file.

    Engines add in different orders, so the key must contain the engine.
    """
    path = sums_path(log)
    if key_of(path) != key:
        _write(log, key, sum_window(log, engine))
    return path


def key_of(path: Path) -> str | None:
    """Return the key of stored sums; None without readable ones."""
    return _stated(path, _KEY)


def open_windows(engine: Engine, logs: Sequence[Path]) -> Log:
    """Return several windows as one log with its item sums, stored or computed."""
    if engine is LOCAL:
        return SummedLog([(open_source(log, {}), _stored_or_summed(log, LOCAL)) for log in logs])
    kept = add_windows([_stored_or_summed(log, engine) for log in logs])
    rows: Any = engine.read(logs, items=kept.items)
    if not rows.weighted and kept.rows.sum() != rows.n_rows:
        raise InputError(
            f"{rows.describe()} holds {rows.n_rows} rows, but {kept.rows.sum()} were summed: the "
            "stored sums belong to other rows"
        )
    rows.item_sums, rows.item_counts = kept.sums, kept.rows
    opened: Log = rows
    return opened


def sum_window(log: Path, engine: Engine = LOCAL) -> ItemSums:
    """Sum a window in one pass over its rows."""
    rows = engine.read(log)
    return ItemSums(rows.items, rows.item_counts, Calibration(rows).item_sums)


def _write(log: Path, key: str, window: ItemSums) -> None:
    columns = {"item_id": window.items, "rows": as_arrow(window.rows)}
    columns |= {name: as_arrow(getattr(window.sums, name)) for name in _PARTS}
    table = pa.table(columns).replace_schema_metadata({_KEY: key.encode(), _FOOTERS: _footers(log)})
    with replacing(sums_path(log)) as temporary:
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)


def _stored_or_summed(log: Path, engine: Engine) -> ItemSums:
    path = sums_path(log)
    try:
        if _stated(path, _FOOTERS) == _footers(log):
            table = pq.read_table(path, page_checksum_verification=True)
            sums = Sums(*(as_numpy(table.column(name)).copy() for name in _PARTS))
            return ItemSums(table.column("item_id").combine_chunks(), as_numpy(table.column("rows")), sums)
    except (pa.ArrowException, OSError, KeyError):
        pass  # they are computed from the rows
    return sum_window(log, engine)


def _stated(path: Path, name: bytes) -> str | None:
    try:
        return (pq.read_schema(path).metadata or {}).get(name, b"").decode() or None
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return None


def _footers(log: Path) -> str:
    """Return a digest of the log's Parquet footers, which contain the size and place of every column."""
    return digest_bytes(_footer(part) for part in parts_of(log))


def _footer(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(-8, os.SEEK_END)  # the length of the footer, and a mark
        file.seek(-8 - int.from_bytes(file.read(4), "little"), os.SEEK_END)
        return file.read()
