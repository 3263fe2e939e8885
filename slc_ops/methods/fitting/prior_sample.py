"""The rows for choosing the prior of ``slc_eb``: a whole log, or a bounded sample of a large one.

The choice has two numbers, and a few million rows determine them as well as a billion. So a log of more than
``PRIOR_ROWS`` rows is sampled, in the same way on every engine, and the choice runs in this process on the
sample: neither its memory nor its time grows with the rows. The sample consists of

1. *whole items*. The precision of an offset depends on the rows of its item, so these must not become fewer:
   a twentieth of the rows of every item would give another prior than all of them (decision 0054). Users keep
   only some of their rows; if those are few, the start of a user's last fifth is random, and users are
   ignored;
2. *whole users*, if items are so few that a sample of them does not represent the others. Then each item has
   so many rows that it can spare some, and the choice holds out each user's last rows;
3. *rows, by item and event time*, if users would give less than half or more than twice the requested size,
   because a few users have almost all rows, or if users are unknown.

If that fails, too (no times, or few timestamps and few items), there is no sample. A key is chosen if its
hash is in the lowest share of all numbers: a hash of the ids' values, independent of the order of the rows
and of the codes of items and users in a file. Identical rows are chosen together.

The share is ``PRIOR_ROWS`` divided by the rows. A row of weight 2 counts as two rows and one of weight 0 as
none, so that a row written twice equals a row of weight 2; but rows count on average at least one and at most
four, so that weights of another scale give neither too many rows nor too few.

No process ever holds more than twice ``PRIOR_ROWS``: the rows of a choice are counted before they are read.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slc_ops.base.buffers import as_arrow, as_numpy
from slc_ops.base.hashing import Words, hashes_at, hashes_of
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.numerics.kernels import dot
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.passes import SPAN_ROWS, Pieces, Totals
from slc_ops.rows.rows import NO_COLUMNS, TIME, Columns, Log, ReadableRows, Rows, joined

Indices = NDArray[np.intp]

PRIOR_ROWS = 1 << 22
MAX_WEIGHT_OF_A_ROW = 4  # maximum count of a row, on average
LEAST_ITEMS = 256  # items of equal size that represent the others
MIN_ROWS_OF_A_USER = 10  # rows of a user, on average, for a meaningful last fifth
SAMPLE_TOLERANCE = 2  # maximum ratio of the sample's size to the requested one, either way
_GIVEN_AS: dict[Literal["time", "user", "group"], str] = {
    "time": "event_time", "user": "user_id", "group": "group_id",
}  # fmt: skip


class By(Enum):
    """The unit of sampling: all rows of an item, of a user, or of an item at a timestamp."""

    ITEM = "item_id"
    USER = "user_id"
    TIMESTAMP = "event_time"

    @property
    def columns(self) -> Columns:
        """Columns that identify the unit, beside the item."""
        return {"user"} if self is By.USER else TIME if self is By.TIMESTAMP else NO_COLUMNS


@dataclass(frozen=True)
class Choice:
    """The rows whose hash is at most ``highest``, without those of weight 0."""

    by: By
    highest: int

    def pieces(self, source: ReadableRows, columns: Columns) -> Iterator[tuple[Rows, Indices]]:
        """Yield all rows of a source in pieces, with the positions of chosen rows; users are hashes."""
        of_rows = self._of_rows(source)
        for rows in _pieces(source, columns | self.by.columns):
            chosen = of_rows(rows)
            yield rows, np.flatnonzero(chosen if rows.weight is None else chosen & (rows.weight > 0))

    def items(self, ids: pa.Array) -> NDArray[np.bool_]:
        """Return a mask of the chosen items."""
        return self._low(hashes_of(ids))

    def _of_rows(self, source: ReadableRows) -> Callable[[Rows], NDArray[np.bool_]]:
        if self.by is By.ITEM:
            items = self.items(source.items)
            return lambda rows: items.take(rows.codes, mode="clip")
        if self.by is By.USER:
            return lambda rows: self._low(_asked_for(rows.user).view(np.uint64))
        hashes = hashes_of(source.items)
        return lambda rows: self._low(hashes_at(hashes[rows.codes], _asked_for(rows.time)))

    def _low(self, hashes: Words) -> NDArray[np.bool_]:
        return np.asarray(hashes <= np.uint64(self.highest))


def _asked_for(column: NDArray[Any] | None) -> NDArray[Any]:
    assert column is not None  # noqa: S101 - the pieces bring it
    return column


def is_large(log: Log) -> bool:
    """Return True if the prior of a log is chosen on a sample."""
    return log.n_rows > PRIOR_ROWS


def prior_rows(log: Log, *, groups: bool = False) -> Rows | None:
    """Return the rows for choosing a prior, with times and users if known; None: no sample is bounded.

    With ``groups`` they have groups, too.
    """
    wanted = _wanted(log) if groups else _wanted(log) - {"group"}
    if not is_large(log):
        return _gathered(log, None, wanted)
    rows = log.item_counts.astype(np.float64)
    mass = Calibration(log).item_sums.n if log.weighted else rows
    weight = float(mass.sum())
    share = min(1.0, PRIOR_ROWS / _size(float(rows.sum()), weight))
    # The number of items of equal size with the same unevenness.
    items = weight**2 / dot(mass, mass)
    for by in By if share * items >= LEAST_ITEMS else (By.USER, By.TIMESTAMP):
        if log.has(by.value):
            choice = Choice(by, min(int(share * 2**64), 2**64 - 1))
            if by is By.ITEM:
                chosen = choice.items(log.items)
                brought, found = float(rows[chosen].sum()), float(mass[chosen].sum())
            else:
                brought, found = log.over_splits(partial(_count, choice)).values.tolist()
            asked = share * weight
            if (
                asked / SAMPLE_TOLERANCE <= found <= asked * SAMPLE_TOLERANCE
                and brought <= SAMPLE_TOLERANCE * PRIOR_ROWS
            ):
                sample = _gathered(log, choice, wanted)
                thinned = by is By.ITEM and share < 1.0
                return _without_short_users(sample, _size(brought, found)) if thinned else sample
    return None


def _size(rows: float, weight: float) -> float:
    """Return the effective number of rows of this weight."""
    return min(max(rows, weight), MAX_WEIGHT_OF_A_ROW * rows)


def _without_short_users(sample: Rows, size: float) -> Rows:
    """Return the sample, without users if they have too few rows."""
    if sample.user is None or size >= MIN_ROWS_OF_A_USER * (int(sample.user.max()) + 1):
        return sample
    return replace(sample, user=None)


def _gathered(log: Log, choice: Choice | None, columns: Columns) -> Rows:
    """Return the chosen rows of a log, or all."""
    codes = columns - {"user", "time"}  # codes of the whole log; users are hashes
    found = joined(log.over_splits(partial(_gather, choice, columns), columns=codes).all)
    return found if found.user is None else replace(found, user=_codes_of(found.user))


def item_sample(log: Log, others: Log) -> tuple[InteractionLog, InteractionLog] | None:
    """Return the rows of the same whole items in two logs, without users; the first log sets their number.

    None if the first is not large, or if its items are too few or too uneven to represent the others.
    """
    if not is_large(log):
        return None
    counts = log.item_counts.astype(np.float64)
    rows = float(counts.sum())
    share = PRIOR_ROWS / max(rows, PRIOR_ROWS)
    choice = Choice(By.ITEM, min(int(share * 2**64), 2**64 - 1))
    brought = float(counts[choice.items(log.items)].sum())
    fair = PRIOR_ROWS / SAMPLE_TOLERANCE <= brought <= PRIOR_ROWS * SAMPLE_TOLERANCE
    if not fair or share * rows**2 / dot(counts, counts) < LEAST_ITEMS:
        return None
    first, second = (_log_of(choice, each) for each in (log, others))
    return None if first is None or second is None else (first, second)


def _log_of(choice: Choice, log: Log) -> InteractionLog | None:
    """Return the chosen rows as a log of their own; None for no rows, or too many."""
    if not 0 < log.item_counts[choice.items(log.items)].sum() <= SAMPLE_TOLERANCE * PRIOR_ROWS:
        return None
    rows = joined(log.over_splits(partial(_gather, choice, _wanted(log) & TIME)).all)
    used = np.bincount(rows.codes, minlength=len(log.items)) > 0
    codes = (np.cumsum(used, dtype=np.int32) - np.int32(1))[rows.codes]
    return InteractionLog.from_rows(
        replace(rows, codes=codes), log.items.take(as_arrow(np.flatnonzero(used)))
    )


def _wanted(log: Log) -> Columns:
    return {name for name, given in _GIVEN_AS.items() if log.has(given)}


def _codes_of(hashes: NDArray[Any]) -> NDArray[np.int32]:
    """Return users as codes in the order of their ids' hashes."""
    encoded = as_arrow(hashes.view(np.int64)).dictionary_encode()
    rank = np.empty(len(encoded.dictionary), dtype=np.int32)
    rank[np.argsort(as_numpy(encoded.dictionary))] = np.arange(rank.size, dtype=np.int32)
    codes: NDArray[np.int32] = rank[as_numpy(encoded.indices)]
    return codes


def _gather(choice: Choice | None, columns: Columns, source: ReadableRows) -> Pieces[Rows]:
    if choice is None:
        return Pieces(list(_pieces(source, columns)))
    return Pieces([rows.chosen(chosen) for rows, chosen in choice.pieces(source, columns)])


def _count(choice: Choice, source: ReadableRows) -> Totals:
    """Return the number of rows and the weight of a choice."""
    brought, weight = 0, 0.0
    for rows, chosen in choice.pieces(source, NO_COLUMNS):
        brought += len(chosen)
        weight += len(chosen) if rows.weight is None else float(np.sum(rows.weight[chosen], dtype=np.float64))
    return Totals(np.array([brought, weight]))


def _pieces(source: ReadableRows, columns: Columns) -> Iterator[Rows]:
    """Yield all rows of a source in their order; users are hashes, never held as a column."""
    if "user" in columns:
        for first, ids in source.user_ids():
            yield replace(source.rows(first, first + len(ids), columns - {"user"}), user=hashes_of(ids))
    else:
        for first in range(0, source.n_rows, SPAN_ROWS):
            yield source.rows(first, min(first + SPAN_ROWS, source.n_rows), columns)
