"""Time bins, and timestamps as integers that keep their order.

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
