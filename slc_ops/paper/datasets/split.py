"""Order each student's interactions and split them into history, calibration and test, strictly by time."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.paper.datasets.published import Published

PARTS = ("history", "calibration", "test")


def ordered(published: Published, min_rows: int) -> pa.Table:
    """Sort the rows by student and time, with ``event_time``, the student's cumulative interaction index.

    Rows with equal timestamps keep their file order. Students with fewer than ``min_rows`` rows are omitted
    and counted, because their rows cannot be split in three.
    """
    rows = published.rows
    users = codes(rows["user_id"])
    often = np.bincount(users)[users] >= min_rows if len(users) else np.zeros(0, bool)
    published.counts[f"students with fewer than {min_rows} rows"] = len(np.unique(users[~often]))
    published.counts["rows of these students"] = int((~often).sum())
    clock = rows["clock"].to_numpy()
    order = np.lexsort((clock, users))
    order = order[often[order]]
    rows = rows.take(pa.array(order))
    index = pa.array(np.arange(len(order)) - starts(users[order])[1])
    rows = rows.append_column("event_time", index)
    if len(rows["event_id"].unique()) < rows.num_rows:
        published.counts["event ids replaced, because some name two events"] = rows.num_rows
        ids = pc.binary_join_element_wise(rows["user_id"], pc.cast(index, pa.string()), ":")
        rows = rows.set_column(rows.schema.get_field_index("event_id"), "event_id", ids)
    return rows


def codes(values: pa.ChunkedArray) -> np.ndarray:
    """Return integer codes of texts."""
    encoded: np.ndarray = pc.dictionary_encode(values.combine_chunks()).indices.to_numpy(zero_copy_only=False)
    return encoded


def starts(sorted_users: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first row of each student and, for every row, its student's first row."""
    _, first, count = np.unique(sorted_users, return_index=True, return_counts=True)
    return first, np.repeat(first, count)


def part_of(rows: pa.Table) -> np.ndarray:
    """Return 0, 1 or 2 per row: the first 60 % of each student's rows, the next 20 %, the rest.

    Rows with equal timestamps are never separated; all belong to the earlier part.
    """
    users = codes(rows["user_id"])
    clock = rows["clock"].to_numpy()
    first, begin = starts(users)
    count = np.diff(np.r_[first, len(users)])
    tied = np.cumsum(np.r_[True, (users[1:] != users[:-1]) | (clock[1:] != clock[:-1])][: len(users)])
    position = np.arange(len(users)) - begin
    tied_begin = position[np.searchsorted(tied, tied)]  # position of the first row with the same timestamp
    total = np.repeat(count, count)
    # The small term corrects binary fractions: 0.6 · 5 is 3, not 2.9999999999999996.
    cuts = [np.floor(share * total + 1e-9) for share in (0.6, 0.8)]
    part: np.ndarray = (tied_begin >= cuts[0]).astype(np.int8) + (tied_begin >= cuts[1])
    return part
