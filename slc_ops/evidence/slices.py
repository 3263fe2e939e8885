"""Slices of the test rows: where does a correction help, and whom does it fail?

* ``density``: terciles of the items' counts in the calibration rows (sparse, medium, dense);
* ``cold_start``: rows whose item has no calibration row;
* ``time``: days of the window, or seven equal parts of any other time axis;
* ``group``: the values of ``group_id``, the largest fifty.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.logs.interactions import InteractionLog
from slc_ops.logs.window import Window

TIME_SLICES = 7
MAX_GROUPS = 50
Kind = Literal["density", "cold_start", "time", "group"]


@dataclass(frozen=True)
class Slice:
    """Some rows with a name; ``label`` is for people."""

    kind: Kind
    name: str
    label: str
    rows: np.ndarray


def calibration_counts(calibration: InteractionLog, test: InteractionLog) -> np.ndarray:
    """Per row of ``test``: how many calibration rows its item has."""
    counts = calibration.item_counts
    ours, theirs = test.items, calibration.items
    if ours.type != theirs.type:  # 7 in one log, "7" in the other
        ours, theirs = ours.cast(pa.string()), theirs.cast(pa.string())
    place = pc.index_in(ours, value_set=theirs)
    known = np.asarray(place.is_valid())
    per_item = np.zeros(len(test.items), np.int64)
    per_item[known] = counts[np.asarray(place.drop_null())]
    per_row: np.ndarray = per_item[test.item_codes]
    return per_row


def density_slices(calibration: InteractionLog, test: InteractionLog) -> Iterator[Slice]:
    """Sparse, medium, dense by terciles over the items of the calibration rows; and cold start."""
    per_item = calibration.item_counts
    per_item = per_item[per_item > 0]
    first, second = (int(edge) for edge in np.quantile(per_item, [1 / 3, 2 / 3], method="lower"))
    counts = calibration_counts(calibration, test)
    bands = [("sparse", 1, first), ("medium", first + 1, second), ("dense", second + 1, int(per_item.max()))]
    for name, low, high in bands:
        if low <= high:
            label = f"{name} ({low:,}–{high:,} obs)" if low < high else f"{name} ({low:,} obs)"
            yield Slice("density", name, label, (counts >= low) & (counts <= high))
    yield Slice("cold_start", "cold_start", "cold start (0 obs)", counts == 0)


def time_slices(test: InteractionLog, window: Window | None) -> Iterator[Slice]:
    """Seven equal spans of the window, or seven equal parts of the rows for other time axes."""
    time = test.time
    if time is None:
        return
    if window is not None and window.start.timestamp() <= time.min() and time.max() < window.end.timestamp():
        edges = np.linspace(window.start.timestamp(), window.end.timestamp(), TIME_SLICES + 1)
    else:
        edges = np.unique(np.quantile(time, np.linspace(0, 1, TIME_SLICES + 1)))
        edges[-1] = np.nextafter(edges[-1], np.inf)
    part = np.searchsorted(edges, time, side="right") - 1
    for k in range(len(edges) - 1):
        yield Slice("time", f"{edges[k]:.17g}", f"{edges[k]:.17g}", part == k)


def group_slices(test: InteractionLog) -> Iterator[Slice]:
    """The values of ``group_id``, largest first; rows without a group belong to none."""
    if test.group is None:
        return
    encoded = test.group.cast(pa.string()).dictionary_encode()
    codes = np.asarray(encoded.indices.fill_null(-1))
    names = encoded.dictionary.to_pylist()
    sizes = np.bincount(codes[codes >= 0], minlength=len(names))
    for code in np.argsort(-sizes, kind="stable")[:MAX_GROUPS]:
        yield Slice("group", names[code], names[code], codes == code)


def group_count(test: InteractionLog) -> int:
    """How many groups there are, shown or not."""
    return 0 if test.group is None else int(pc.count_distinct(test.group).as_py())
