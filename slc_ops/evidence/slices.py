"""Cut the test rows into slices, to show where a correction helps or harms.

* ``density``: terciles of the items' observation counts in the calibration rows (sparse, medium, dense);
* ``cold_start``: rows whose item has no calibration row;
* ``time``: days of the window, or seven equal parts of any other time axis;
* ``group``: the fifty largest values of ``group_id``.

Observations and sizes are sums of weights: a row of weight 2 counts like the row twice.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from slc_ops.base.ids import IdIndex
from slc_ops.base.window import Window
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.rows import selection
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.passes import Partial, Totals
from slc_ops.rows.rows import NO_COLUMNS, TIME, Columns, Log, Rows

TIME_SLICES = 7
MAX_GROUPS = 50
Kind = Literal["density", "cold_start", "time", "group"]


@dataclass(frozen=True)
class Slicing:
    """A partition of rows: ``number_of`` returns the index of each row's part, −1 for none.

    With ``intervals`` differences on the parts get intervals.
    """

    parts: tuple[tuple[Kind, str, str], ...]
    number_of: Callable[[Rows], NDArray[Any]]
    columns: Columns = NO_COLUMNS
    intervals: bool = True


def by_density(calibration: Log, test: Log) -> Slicing:
    """Cut by terciles over the calibration items (sparse, medium, dense), and cold start."""
    observed = Calibration(calibration).item_sums.n
    per_item = np.sort(observed[observed > 0])
    first, second = np.quantile(per_item, [1 / 3, 2 / 3], method="lower")
    counts = np.append(observed, 0.0)[IdIndex(calibration.items).positions(test.items)]  # 0: unknown
    parts: list[tuple[Kind, str, str]] = []
    number = np.full(len(counts), -1, np.int8)
    bands = [("sparse", 0.0, first), ("medium", first, second), ("dense", second, per_item[-1])]
    for name, above, high in bands:
        if above < high:
            number[(counts > above) & (counts <= high)] = len(parts)
            parts.append(("density", name, f"{name} ({_range(above, high, per_item)} obs)"))
    number[counts == 0] = len(parts)
    parts.append(("cold_start", "cold_start", "cold start (0 obs)"))
    return Slicing(tuple(parts), partial(_by_code, "codes", number))


def _range(above: float, high: float, ordered: NDArray[np.float64]) -> str:
    """Format a band of observations; bands of whole numbers start one above the previous band."""
    whole = bool((ordered == np.floor(ordered)).all())
    low = above + 1 if whole else float(ordered[np.searchsorted(ordered, above, side="right")])
    form = ",.0f" if whole else ",.4g"
    return f"{low:{form}}–{high:{form}}" if low < high else f"{high:{form}}"


def by_time(test: Log, window: Window | None) -> Slicing:
    """Cut into seven equal spans of the window; for other time axes, seven equal parts of the rows."""
    if not test.has("event_time"):
        return Slicing((), partial(_by_moment, np.array([])))
    low, high = time_range(test)
    if window is not None and window.start.timestamp() <= low and high < window.end.timestamp():
        edges = np.linspace(window.start.timestamp(), window.end.timestamp(), TIME_SLICES + 1)
    else:
        edges = np.unique(time_quantiles(test, np.linspace(0, 1, TIME_SLICES + 1)))
        edges[-1] = np.nextafter(edges[-1], np.inf)
    parts = tuple(("time", f"{edge:.17g}", f"{edge:.17g}") for edge in edges[:-1])
    return Slicing(parts, partial(_by_moment, edges), TIME, intervals=False)  # type: ignore[arg-type]


def _by_moment(edges: NDArray[Any], rows: Rows) -> NDArray[Any]:
    assert rows.time is not None  # noqa: S101 - the pass requests times
    return np.asarray(np.searchsorted(edges, rows.time, side="right") - 1)


def time_range(log: Log) -> tuple[float, float]:
    """Return the first and the last timestamp of all rows."""
    return selection.time_range(partial(_over_all, log))


def time_quantiles(log: Log, shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``np.quantile`` of the event times of all rows, without weights."""
    if isinstance(log, InteractionLog) and log.time is not None:
        return np.asarray(np.quantile(log.time, shares))
    # Interpolate linearly between the two order statistics around each position.
    position = shares * (log.n_rows - 1)
    ranks = np.unique(np.concatenate([np.floor(position), np.ceil(position)])).astype(np.int64)
    values = selection.order_statistics(partial(_over_all, log), ranks + 1, log.n_rows)
    return np.interp(position, ranks, values)


def _over_all(log: Log, kernel: Callable[[Rows], Partial]) -> Partial:
    return log.add_up(partial(_unweighted, kernel), columns=TIME)


def _unweighted(kernel: Callable[[Rows], Partial], rows: Rows) -> Partial:
    return kernel(replace(rows, weight=None))


def by_group(test: Log) -> Slicing:
    """Cut by ``group_id``, largest first, ties by name; rows without a group are in no slice."""
    if test.groups is None:
        return Slicing((), partial(_by_code, "group", np.array([])))
    names = test.groups.to_pylist()
    sizes = test.add_up(partial(_group_sizes, len(names)), columns={"group"}, n_keys=len(names)).values
    largest = [code for code in np.lexsort((names, -sizes)) if sizes[code] > 0][:MAX_GROUPS]
    number = np.full(len(names) + 1, -1, np.int16)
    number[largest] = np.arange(len(largest))
    parts = tuple(("group", names[code], names[code]) for code in largest)
    return Slicing(parts, partial(_by_code, "group", number), {"group"})  # type: ignore[arg-type]


def _by_code(column: Literal["codes", "group"], number: NDArray[Any], rows: Rows) -> NDArray[Any]:
    return np.asarray(number[getattr(rows, column)])  # a row without a group has code −1, the last entry


def _group_sizes(size: int, rows: Rows) -> Totals:
    assert rows.group is not None  # noqa: S101 - the pass requests groups
    own = rows.group >= 0
    weight = None if rows.weight is None else rows.weight[own]
    return Totals(np.bincount(rows.group[own], weight, size).astype(np.float64))
