"""Time bins, where a row stands in its group's time, and timestamps as integers that keep their order.

Bins are closed on the right. Most logs are written in the order of time, so the rows of a slice are often all
in one bin; its least and its greatest timestamp tell, and cost less than its rows.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slc_ops.numerics.kernels import Floats, slices

_SIGN = np.uint64(1 << 63)
_ALL = np.uint64((1 << 64) - 1)

Ordered = NDArray[np.uint64]


def time_bin(time: Floats, edges: Floats) -> NDArray[np.integer]:
    """The bin ``(edge, next edge]`` of each timestamp; earlier ones are in the first, later ones in the last.

    >>> time_bin(np.array([-1.0, 0.0, 1.0, 1.5, 5.0]), np.array([0.0, 1.0, 2.0])).tolist()
    [0, 0, 0, 1, 1]
    """
    inner = edges[1:-1]
    bins: NDArray[Any] = np.empty(len(time), np.int8 if len(inner) < 1 << 7 else np.int32)
    for part in slices(len(time)):
        timestamp, mine = time[part], bins[part]
        least, most = np.searchsorted(inner, [timestamp.min(), timestamp.max()], side="left")
        if np.isnan(timestamp.max()):  # a caller's row without a time must not decide about its neighbours
            least = 0
        mine[:] = least
        if most - least > 32:
            mine[:] = np.searchsorted(inner, timestamp, side="left")
            continue
        # For a few edges, counting those that were passed beats a binary search per row.
        for edge in inner[least:most]:
            mine += (timestamp > edge).view(np.int8)
    return bins


def ordered(time: Floats) -> Ordered:
    """The bits of each timestamp, turned so that they order like the timestamps.

    >>> ordered(np.array([-np.inf, -1.0, -0.0, 0.0, 2.0])).argsort().tolist()
    [0, 1, 2, 3, 4]
    """
    bits: Ordered = np.add(time, 0.0).view(np.uint64)  # −0.0 is 0.0
    # The sign's bit is turned; of a negative number all bits are.
    turn = (bits.view(np.int64) >> 63).view(np.uint64)
    turn |= _SIGN
    bits ^= turn
    return bits


def timestamp_of(bits: int) -> float:
    """The timestamp of its ordered bits."""
    turned = np.uint64(bits) ^ (_SIGN if np.uint64(bits) & _SIGN else _ALL)
    return float(np.array([turned], np.uint64).view(np.float64)[0])


def position(groups: NDArray[np.integer], time: Floats, weight: Floats | None = None) -> Floats:
    """Where each row stands in its group's time, from 0 to 1: weight before it plus half of its time's own.

    >>> position(np.array([0, 0, 0, 1]), np.array([5.0, 1.0, 5.0, 9.0])).round(2).tolist()
    [0.67, 0.17, 0.67, 0.5]
    """
    rows, row_bits = len(time), len(time).bit_length()
    by_time = np.argsort(time, kind="stable")
    # Group and place in time in one integer: sorting integers is ten times faster than sorting rows.
    key = groups[by_time].astype(np.int64) << row_bits
    key |= np.arange(rows)
    key.sort()
    order = by_time[key & ((1 << row_bits) - 1)]
    new_group = _changes(key >> row_bits)
    new_time = new_group | _changes(time[order])
    before = np.arange(rows + 1.0) if weight is None else np.append(0.0, np.cumsum(weight[order]))
    times = np.append(np.flatnonzero(new_time), rows)
    begins = np.append(np.flatnonzero(new_group), rows)
    # Of each timestamp the middle of its weight, of each group where it begins and how much it weighs.
    middle, edge = (before[times[:-1]] + before[times[1:]]) / 2, before[begins]
    length = np.where(edge[1:] > edge[:-1], np.diff(edge), 1.0)
    times_of_group = np.diff(np.searchsorted(times, begins))
    share = (middle - np.repeat(edge[:-1], times_of_group)) / np.repeat(length, times_of_group)
    positions = np.empty(rows)
    positions[order] = np.repeat(share, np.diff(times))
    return positions


def _changes(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a value differs from the one before it; the first does."""
    return np.append(True, values[1:] != values[:-1])
