"""Time bins, positions of rows in their group's time, and timestamps as integers that keep their order.

Bins are closed on the right.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slc_ops.numerics.kernels import Floats, stable_order

_SIGN = np.uint64(1 << 63)
_ALL = np.uint64((1 << 64) - 1)

Ordered = NDArray[np.uint64]


def time_bin(time: Floats, edges: Floats) -> NDArray[np.integer]:
    """Return the bin ``(edge, next edge]`` of each timestamp; those outside are in the first or the last.

    >>> time_bin(np.array([-1.0, 0.0, 1.0, 1.5, 5.0]), np.array([0.0, 1.0, 2.0])).tolist()
    [0, 0, 0, 1, 1]
    """
    return np.searchsorted(edges[1:-1], time, side="left")


def window_of(starts: Floats, time: Floats) -> NDArray[np.intp]:
    """Return the window of each timestamp, by the windows' starts; earlier ones are in the first.

    >>> window_of(np.array([0.0, 10.0]), np.array([-1.0, 3.0, 10.0, 99.0])).tolist()
    [0, 0, 1, 1]
    """
    ends = np.array([time.min(initial=np.inf), time.max(initial=-np.inf)])
    first, last = np.maximum(np.searchsorted(starts, ends, side="right"), 1) - 1
    if first == last:  # as in most parts of a pass
        return np.full(len(time), first)
    return np.maximum(np.searchsorted(starts, time, side="right"), 1) - 1


def ordered(time: Floats) -> Ordered:
    """Return the bits of each timestamp, mapped so that they order like the timestamps.

    >>> ordered(np.array([-np.inf, -1.0, -0.0, 0.0, 2.0])).argsort().tolist()
    [0, 1, 2, 3, 4]
    """
    bits: Ordered = np.add(time, 0.0).view(np.uint64)  # −0.0 is 0.0
    # Flip the sign bit; of a negative number flip all bits.
    turn = (bits.view(np.int64) >> 63).view(np.uint64)
    turn |= _SIGN
    bits ^= turn
    return bits


def unordered(bits: Ordered) -> Floats:
    """Return the timestamps of ordered bits."""
    turned = bits ^ np.where(bits & _SIGN, _SIGN, _ALL)
    return np.asarray(turned.view(np.float64))


def position(groups: NDArray[np.integer], time: Floats, weight: Floats | None = None) -> Floats:
    """Return each row's position in its group's time (0 to 1): earlier weight plus half of its timestamp's.

    >>> position(np.array([0, 0, 0, 1]), np.array([5.0, 1.0, 5.0, 9.0])).round(2).tolist()
    [0.67, 0.17, 0.67, 0.5]
    """
    rows = len(time)
    by_time = np.argsort(time, kind="stable")
    order = by_time[stable_order(groups[by_time])]
    new_group = _changes(groups[order])
    new_time = new_group | _changes(time[order])
    before = np.arange(rows + 1.0) if weight is None else np.append(0.0, np.cumsum(weight[order]))
    times = np.append(np.flatnonzero(new_time), rows)
    begins = np.append(np.flatnonzero(new_group), rows)
    # The middle of each timestamp's weight; the start and the weight of each group.
    middle, edge = (before[times[:-1]] + before[times[1:]]) / 2, before[begins]
    length = np.where(edge[1:] > edge[:-1], np.diff(edge), 1.0)
    times_of_group = np.diff(np.searchsorted(times, begins))
    share = (middle - np.repeat(edge[:-1], times_of_group)) / np.repeat(length, times_of_group)
    positions = np.empty(rows)
    positions[order] = np.repeat(share, np.diff(times))
    return positions


def _changes(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark the values that differ from the previous one; the first counts as different."""
    return np.append(True, values[1:] != values[:-1])
