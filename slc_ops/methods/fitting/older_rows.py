"""The rows of the blocks of ``slc_mix``, limited to ``MOST_ROWS`` if they reach far back.

26 windows of five million rows are 130 million rows. All rows of the link's windows enter; older rows enter
by a sample. Instead of the weight 2^(−age/half-life) a row has this chance of entering, and then counts once.
If the rows are still too many, items with many rows have a smaller chance: at most K rows of an item are
expected, with the largest K that is within the limit. An item with that many rows is known well; a rare item
keeps its rows. A sampled row never counts as several rows: these would make effects appear too certain
(decision 0128 has the figures).

A row is chosen if the hash of its item and its event time is low, so the sample does not depend on the order
of the rows, and identical rows are chosen together. Rows on a cluster are not sampled; passes run there.
"""

from dataclasses import replace

import numpy as np

from slc_ops.base.hashing import hashes_at, hashes_of
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.numerics.kernels import Floats
from slc_ops.numerics.time_bins import window_of
from slc_ops.rows.interactions import IN_MEMORY_ROWS, InteractionLog
from slc_ops.rows.passes import SPAN_ROWS
from slc_ops.rows.rows import TIME, Columns, Rows, joined

MOST_ROWS = IN_MEMORY_ROWS
LEAST_OLDER = 4  # a quarter of the limit is for older rows, if the link's windows alone exceed the rest


def limited(older: Calibration, newest: Calibration, *, users: bool) -> Calibration:
    """Return the rows of ``older``, or a sample of those before the ``newest`` if they are too many.

    The sample has users only if requested.
    """
    log, forget = older.log, older.forget
    if log.n_rows <= MOST_ROWS or forget is None or not isinstance(log, InteractionLog):
        return older
    first = newest.log.sample([0], 1, TIME)[0].time
    assert first is not None  # noqa: S101 - the sample requests times
    starts = np.asarray(forget.starts)
    since = float(starts[window_of(starts, first)[0]])
    columns: Columns = {"time", "group", "user"} if users else {"time", "group"}
    spans = [(first, min(first + SPAN_ROWS, log.n_rows)) for first in range(0, log.n_rows, SPAN_ROWS)]
    expected = np.zeros(len(log.items))
    for span in spans:
        rows = log.rows(*span, TIME)
        chance = np.where(_times(rows) < since, forget.of(_times(rows)), 0.0)
        expected += np.bincount(rows.codes, chance, len(expected))
    share = shares(expected, max(MOST_ROWS - newest.log.n_rows, MOST_ROWS // LEAST_OLDER))
    hashes = hashes_of(log.items)

    def chosen(span: tuple[int, int]) -> Rows:
        rows = log.rows(*span, columns)
        time, fresh = _times(rows), forget.of(_times(rows))
        hashed = hashes_at(hashes[rows.codes], time)
        weight = np.where(time < since, 1.0, fresh) * (1.0 if rows.weight is None else rows.weight)
        enters = (time >= since) | (hashed < share[rows.codes] * fresh * 2.0**64)
        return replace(rows, weight=weight).chosen(enters)

    rows = joined([chosen(span) for span in spans])
    sample = InteractionLog.from_rows(rows, log.items, log.users if users else None, log.groups)
    return Calibration(sample, None, older.options)


def _times(rows: Rows) -> Floats:
    assert rows.time is not None  # noqa: S101 - the span has times
    return rows.time


def shares(counts: Floats, most: float) -> Floats:
    """Return the share of each item's rows, so that at most ``most`` remain: K of an item with more.

    >>> shares(np.array([100.0, 10.0, 1.0]), 51).tolist()
    [0.4, 1.0, 1.0]
    """
    ascending = np.sort(counts)
    left = len(counts) - np.arange(len(counts))
    # With K equal to the k-th count, the items before it are whole and the others have K rows each.
    total = np.cumsum(ascending) - ascending + ascending * left
    whole = int(np.searchsorted(total, most, side="right"))
    if whole == len(counts):
        return np.ones(len(counts))
    limit = (most - float(np.sum(ascending[:whole]))) / float(left[whole])
    return np.asarray(limit / np.maximum(counts, limit))
