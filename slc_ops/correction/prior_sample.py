"""The rows that the prior of ``slc_eb`` is chosen on: all of a log, or a bounded sample of a large one.

Two numbers are chosen, and a few million rows tell as much about them as a billion. So a log of more than
``PRIOR_ROWS`` rows is sampled, in one way wherever its rows lie, and the choice runs in this process on what
was sampled: neither its memory nor its time grows with the rows.

*Whole users* are sampled, because the choice holds out each user's last rows: those whose hash is among the
lowest share of all numbers. It is a hash of the id's value, so neither the order of the rows nor the way in
which a file numbers its users changes who is chosen. Where that gives less than half or more than twice of
what was asked for (a few users hold almost everything), or users are unknown, rows are sampled by a hash of
item and event time, under which rows that are alike share their fate. Where that fails, too (no times, or few
moments and few items), there is no sample.

The share is ``PRIOR_ROWS`` divided by the rows. A row of weight 2 counts as two rows and one of weight 0 as
none, so that writing a row twice instead of giving it weight 2 changes nothing; but rows count for no less
than one and no more than four on average, so that weights of another scale bring neither too many rows nor
too few.

What a choice would bring is counted before it is collected: nobody ever holds more than twice ``PRIOR_ROWS``.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from slc_ops.correction.lookup import Words, hashes_of, stir
from slc_ops.logs.buffers import as_arrow, as_numpy
from slc_ops.logs.passes import SPAN_ROWS, Totals
from slc_ops.logs.rows import Log, ReadableRows, Rows, joined

Places = slice | NDArray[np.intp]

PRIOR_ROWS = 1 << 22
MOST_A_ROW = 4  # what a row counts at most, on average
FAR_OFF = 2  # times as much as was asked for, or as little


@dataclass(frozen=True)
class Choice:
    """The rows whose hash is at most ``highest``: a hash of the user, or of item and time.

    Rows of weight 0 are left out. With None for ``highest`` every row is chosen, as it is.
    """

    highest: int | None
    by_user: bool = True

    def pieces(self, source: ReadableRows, *, time: bool, user: bool) -> Iterator[tuple[Rows, Places]]:
        """All rows of a source, piece by piece, and which of them are chosen; users are hashes."""
        by_item = self.highest is not None and not self.by_user
        items = hashes_of(source.items) if by_item else None
        for rows in _pieces(source, time=time or by_item, user=user):
            yield rows, self._chosen(rows, items)

    def _chosen(self, rows: Rows, items: Words | None) -> Places:
        if self.highest is None:
            return slice(None)
        hashes = _hashes_of_users(rows) if items is None else _hashes_of_moments(items, rows)
        chosen = hashes <= np.uint64(self.highest)
        return np.flatnonzero(chosen if rows.weight is None else chosen & (rows.weight > 0))


@dataclass
class Gathered:
    """Rows that were chosen, in their order."""

    parts: list[Rows]

    def add(self, other: "Gathered") -> None:
        """Take up further ones."""
        self.parts += other.parts


def prior_rows(log: Log, threads: int = 1) -> Rows | None:
    """The rows to choose a prior on, with times and users where there are any; None: no sample is bounded."""
    if log.n_rows <= PRIOR_ROWS:
        return _gathered(log, Choice(None))
    rows, weight = log.add_up(_weigh, threads=threads).values.tolist() if log.weighted else [log.n_rows] * 2
    share = min(1.0, PRIOR_ROWS / min(max(rows, weight, 1), MOST_A_ROW * max(rows, 1)))
    highest = min(int(share * 2**64), 2**64 - 1)
    asked = share * weight
    for column, by_user in (("user_id", True), ("event_time", False)):
        if log.has(column):
            choice = Choice(highest, by_user)
            brought, found = log.over_splits(partial(_count, choice)).values
            if asked / FAR_OFF <= found <= asked * FAR_OFF and brought <= FAR_OFF * PRIOR_ROWS:
                return _gathered(log, choice)
    return None


def _gathered(log: Log, choice: Choice) -> Rows:
    """The chosen rows of a log, with users as codes in the order of their appearance."""
    time, user = log.has("event_time"), log.has("user_id")
    found = joined(log.over_splits(partial(_gather, choice, time, user)).parts)
    if found.user is None:
        return found
    codes = as_numpy(as_arrow(found.user.view(np.int64)).dictionary_encode().indices)
    return replace(found, user=codes)


def _gather(choice: Choice, time: bool, user: bool, source: ReadableRows) -> Gathered:
    pieces = choice.pieces(source, time=time, user=user)
    return Gathered([joined([rows.chosen(places) for rows, places in pieces])])


def _count(choice: Choice, source: ReadableRows) -> Totals:
    total = Totals(np.zeros(2))
    for rows, places in choice.pieces(source, time=False, user=choice.by_user):
        total.add(_weigh(rows, places))
    return total


def _weigh(rows: Rows, places: Places = slice(None)) -> Totals:
    """How many rows count, and Σw."""
    if rows.weight is None:
        return Totals(np.full(2, float(len(rows.codes[places]))))
    weight = rows.weight[places].astype(np.float64)
    return Totals(np.array([np.count_nonzero(weight), np.sum(weight)], dtype=np.float64))


def _pieces(source: ReadableRows, *, time: bool, user: bool) -> Iterator[Rows]:
    """All rows of a source in their order; users stream by and are never held as a column."""
    if user:
        for first, ids in source.user_ids():
            yield replace(source.rows(first, first + len(ids), time=time), user=hashes_of(ids))
    else:
        for first in range(0, source.n_rows, SPAN_ROWS):
            yield source.rows(first, min(first + SPAN_ROWS, source.n_rows), time=time)


def _hashes_of_users(rows: Rows) -> Words:
    assert rows.user is not None  # noqa: S101 - the pieces bring it
    return rows.user.view(np.uint64)


def _hashes_of_moments(items: Words, rows: Rows) -> Words:
    assert rows.time is not None  # noqa: S101 - the pieces bring it
    return stir(items[rows.codes] ^ stir((rows.time + 0.0).view(np.uint64)))
