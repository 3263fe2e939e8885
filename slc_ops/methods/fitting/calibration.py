"""The rows of a fit, with the sums that several methods share computed once."""

from collections.abc import Callable, Hashable
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from slc_ops.base import threads
from slc_ops.base.errors import FitError, InputError, OneClassError
from slc_ops.methods.fitting.options import FitOptions, Forgetting
from slc_ops.numerics.kernels import Floats, Sums, dot, key_sums, slices
from slc_ops.numerics.time_bins import time_bin
from slc_ops.rows.passes import Partial, Totals
from slc_ops.rows.rows import NO_COLUMNS, TIME, Columns, Log, Rows
from slc_ops.rows.selection import quantile_edges

CELL_BYTES = 128  # bytes of a cell at the peak of a temporal fit: sums, smoother, item table
MAX_CELLS = 50_000_000  # so that a temporal fit needs at most 8 GB
MAX_WEIGHT = 1e100  # of all rows together: fits square sums of weights, and the largest number is 1e308
MIN_WEIGHT = 1e-100  # below, their products and the prior's precision have no common digits
LARGE_CELLS = MAX_CELLS // 8  # sums of this many keys are large themselves: 200 MB

T = TypeVar("T")


class Calibration:
    """A calibration log, earlier rows for placing time bins, and the options.

    Methods, fits of one method under several options, and threads share the sums.
    """

    def __init__(
        self,
        log: Log,
        history: Log | None = None,
        options: FitOptions | None = None,
        forget: Forgetting | None = None,
        starts: tuple[float, ...] = (),
    ) -> None:
        """``forget`` is for methods that weight old rows less; the shared sums do not use it.

        ``starts`` are the starts of the log's windows, oldest first, gaps included; empty if the log is not
        divided into windows.
        """
        self.log, self.history, self.options = log, history, options or FitOptions()
        self.forget, self.starts = forget, starts
        self.keep_rows = False  # rows of a choice of several methods, if reading again is expensive
        self._once = threads.Once()

    def under(self, options: FitOptions) -> "Calibration":
        """Return the same rows under other options; both share computed values."""
        view = copy(self)
        view.options = options
        return view

    def once(self, name: Hashable, work: Callable[[], T]) -> T:
        """Return a value that several methods need; the first caller computes it."""
        return self._once.get(name, work)

    @property
    def n_items(self) -> int:
        """Number of distinct items of the log."""
        return len(self.log.items)

    @threads.once
    def item_sums(self) -> Sums:
        """n, Σy, Σp and Fisher weight per item at the frozen logits: from one pass, or stored sums."""
        stored: Sums | None = getattr(self.log, "item_sums", None)
        if stored is not None:
            return stored
        return self.add_up(partial(_sums, None, self.n_items), n_keys=self.n_items)

    @property
    def cell_sums(self) -> Sums:
        """The same per (item, time bin), items first: key = item · bins + bin."""
        return self._once.get(("cell_sums", self.options.time_bins), self._cell_sums)

    def _cell_sums(self) -> Sums:
        n_cells = self.n_items * self.n_bins
        if n_cells > MAX_CELLS:
            raise FitError(
                f"{self.n_items:,} items in {self.n_bins} time bins are {n_cells:,} cells, which would need "
                f"{n_cells * CELL_BYTES / 1e9:.0f} GB; at most {MAX_CELLS:,} are fitted (use fewer time "
                "bins, or a method without them)"
            )
        threads = self.options.workers
        if n_cells > LARGE_CELLS:  # two threads would hold four of them at a time
            threads = 1
            self._once.forget(lambda name: name[0] == "cell_sums")  # those of another number of bins
        kernel = partial(_sums, self.time_edges, n_cells)
        return self.log.add_up(kernel, threads=threads, columns=TIME, n_keys=n_cells)

    @property
    def time_edges(self) -> Floats:
        """Quantiles of event time over history and calibration."""
        return self._once.get(("time_edges", self.options.time_bins), self._time_edges)

    def _time_edges(self) -> Floats:
        logs = [log for log in (self.history, self.log) if log is not None]
        for log in logs:
            if not log.has("event_time"):
                raise InputError(f"{log.describe()} has no column event_time, which this method needs")

        def over_both(kernel: Callable[[Rows], Partial]) -> Partial:
            parts = [log.add_up(kernel, threads=self.options.workers, columns=TIME) for log in logs]
            for part in parts[1:]:
                parts[0].merge(part)
            return parts[0]

        return quantile_edges(over_both, self.options.time_bins)

    @property
    def n_bins(self) -> int:
        """Number of time bins after merging equal edges."""
        return len(self.time_edges) - 1

    @threads.once
    def total_weight(self) -> float:
        """Σw."""
        return float(self.item_sums.n.sum())

    @threads.once
    def logit_moments(self) -> tuple[float, float]:
        """Weighted mean and standard deviation of the logits; :class:`FitError` if not finite."""
        mean, spread = self._moments("logit")
        if not np.isfinite(spread):
            raise FitError(
                f"the logits of {self.log.describe()} are too far apart for a fit: their squares have no "
                "finite sum (logits beyond ±700 add nothing: limit them)"
            )
        return mean, spread

    @property
    def constant_logits(self) -> bool:
        """True if all logits are equal within the precision of a slope."""
        mean, spread = self.logit_moments
        return spread <= 1e-9 * max(1.0, abs(mean))

    @property
    def logit_scale(self) -> tuple[float, float]:
        """The moments of the logits, with spread 0 for constant ones."""
        mean, spread = self.logit_moments
        return mean, 0.0 if self.constant_logits else spread

    @threads.once
    def time_moments(self) -> tuple[float, float]:
        """Weighted mean and standard deviation of event time; 1 if all times are equal."""
        mean, spread = self._moments("time")
        return mean, spread or 1.0

    def require_two_classes(self) -> None:
        """Raise :class:`OneClassError` if all labels are equal, :class:`FitError` for unusable weights."""
        with np.errstate(over="ignore"):
            ones, total = float(self.item_sums.y.sum()), self.total_weight
        if total == 0:
            raise OneClassError("all weights are 0, so no row counts; expected labels of both classes")
        if not MIN_WEIGHT <= total <= MAX_WEIGHT:
            limit = f"at least {MIN_WEIGHT:g}" if total < MIN_WEIGHT else f"at most {MAX_WEIGHT:g}"
            raise FitError(
                f"the weights of {self.log.describe()} add up to {total:g}; a fit can work with {limit} (a "
                "weight is a number of rows: divide all weights by the largest)"
            )
        if ones in (0.0, self.total_weight):
            raise OneClassError(
                f"all {self.log.n_rows} labels that count are {int(ones > 0)}; a calibration needs both "
                "classes (widen the window)"
            )

    def _moments(self, column: str) -> tuple[float, float]:
        # Centre on the first value, not on 0: sums of squares of large, close numbers lose all digits.
        columns = TIME if column == "time" else NO_COLUMNS
        centre = float(getattr(self.log.sample([0], 1, columns)[0], column)[0])
        parts = self.add_up(partial(_moments, column, centre), columns=columns).values
        with np.errstate(over="ignore", invalid="ignore"):  # a spread that is not finite is refused by name
            shift, square = parts / self.total_weight
            return centre + float(shift), float(np.sqrt(np.maximum(square - shift * shift, 0.0)))

    def add_up(
        self, kernel: Callable[[Rows], Partial], *, columns: Columns = NO_COLUMNS, n_keys: int = 1
    ) -> Partial:
        """Return the kernel's sums over all rows of the log."""
        return self.log.add_up(kernel, threads=self.options.workers, columns=columns, n_keys=n_keys)


class Offsets(Protocol):
    """The fixed δ of each row in a fit: :class:`ItemOffsets`, or the effects of a parameter set."""

    @property
    def columns(self) -> Columns: ...

    def added(self, rows: Rows) -> Floats: ...


@dataclass(frozen=True)
class ItemOffsets:
    """δ by item code, or by item code and time bin."""

    values: Floats
    time_edges: Floats | None = None

    @property
    def columns(self) -> Columns:
        return NO_COLUMNS if self.time_edges is None else TIME

    def added(self, rows: Rows) -> Floats:
        return self.values.ravel().take(keys_of(rows, self.time_edges), mode="clip")


def keys_of(rows: Rows, time_edges: Floats | None) -> NDArray[np.integer]:
    """Return the item of each row, or its item and time bin: item · bins + bin."""
    if time_edges is None:
        return rows.codes
    assert rows.time is not None  # noqa: S101 - the caller requests times
    keys: NDArray[np.intp] = np.multiply(rows.codes, len(time_edges) - 1, dtype=np.intp)
    keys += time_bin(rows.time, time_edges)
    return keys


def _sums(time_edges: Floats | None, n_keys: int, rows: Rows) -> Sums:
    return key_sums(keys_of(rows, time_edges), n_keys, rows.label, rows.logit, rows.weight)


def _moments(column: str, centre: float, rows: Rows) -> Totals:
    sums = np.zeros(2)
    for part in slices(len(rows)):
        mine = rows.chosen(part)
        values = np.subtract(getattr(mine, column), centre, dtype=np.float64)
        with np.errstate(over="ignore"):
            weighted = values if mine.weight is None else values * mine.weight
            sums += np.sum(weighted), dot(weighted, values)
    return Totals(sums)
