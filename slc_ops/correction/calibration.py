"""The rows that a method is fitted on, with the sums that several methods share computed once."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slc_ops.correction.kernels import Floats, Sums, key_sums, scratch
from slc_ops.correction.options import FitOptions
from slc_ops.correction.passes import SPAN_ROWS, add_up, in_spans
from slc_ops.correction.timebins import quantile_edges, time_bin
from slc_ops.errors import OneClassError
from slc_ops.logs.interactions import InteractionLog, Rows


class Calibration:
    """A calibration log, the earlier rows that help to place time bins, and the options."""

    def __init__(
        self, log: InteractionLog, history: InteractionLog | None = None, options: FitOptions | None = None
    ) -> None:
        self.log, self.history, self.options = log, history, options or FitOptions()

    @property
    def n_items(self) -> int:
        """Distinct items of the log."""
        return len(self.log.items)

    @cached_property
    def item_sums(self) -> Sums:
        """n, Σy, Σp and Fisher weight per item at the frozen logits: one pass."""
        return self.offset_sums(None)

    def offset_sums(self, offset: Floats | None) -> Sums:
        """The same at η₀ + offset[item]."""

        def work(first: int, last: int) -> Sums:
            rows = self.log.rows(first, last)
            return key_sums(rows.codes.astype(np.intp), self.n_items, rows, offset)

        return self._add_up(work, self.n_items)

    @cached_property
    def cell_sums(self) -> Sums:
        """The same per (item, time bin), items first: key = item · bins + bin."""
        bins = self.n_bins

        def work(first: int, last: int) -> Sums:
            rows = self.log.rows(first, last, time=True)
            return key_sums(self.cells(rows), self.n_items * bins, rows)

        return self._add_up(work, self.n_items * bins)

    def cells(self, rows: Rows) -> NDArray[np.intp]:
        """The (item, time bin) of each row."""
        assert rows.time is not None  # noqa: S101 - the caller asked for times
        cells: NDArray[np.intp] = scratch("cells", len(rows), np.intp)
        np.multiply(rows.codes, self.n_bins, out=cells, dtype=np.intp)
        cells += time_bin(rows.time, self.time_edges)
        return cells

    @cached_property
    def time_edges(self) -> Floats:
        """Quantiles of event time over history and calibration."""

        def spans() -> Iterator[tuple[Floats, NDArray[Any] | None]]:
            for log in (self.history, self.log):
                if log is not None:
                    for first in range(0, log.n_rows, SPAN_ROWS):
                        rows = log.rows(first, min(first + SPAN_ROWS, log.n_rows), time=True)
                        assert rows.time is not None  # noqa: S101 - log.rows raises without times
                        yield rows.time, rows.weight

        return quantile_edges(spans, self.options.time_bins)

    @property
    def n_bins(self) -> int:
        """Time bins that are left once equal edges are one."""
        return len(self.time_edges) - 1

    @cached_property
    def total_weight(self) -> float:
        """Σw."""
        return float(self.item_sums.n.sum())

    @cached_property
    def logit_moments(self) -> tuple[float, float]:
        """Weighted mean and standard deviation of the logits."""
        return self._moments("logit")

    @cached_property
    def largest_logit(self) -> float:
        """max |η₀|."""

        def work(first: int, last: int) -> float:
            logit = self.log.rows(first, last).logit
            return float(max(logit.max(), -logit.min()))

        return max(in_spans(work, self.log.n_rows, self.options.workers))

    @cached_property
    def time_moments(self) -> tuple[float, float]:
        """Weighted mean and standard deviation of event time; 1 where all times are equal."""
        mean, spread = self._moments("time")
        return mean, spread or 1.0

    def require_two_classes(self) -> None:
        """Refuse labels that are all equal."""
        ones = float(self.item_sums.y.sum())
        if self.total_weight == 0:
            raise OneClassError("all weights are 0, so no row counts; expected labels of both classes")
        if ones in (0.0, self.total_weight):
            raise OneClassError(
                f"all {self.log.n_rows} labels that count are {int(ones > 0)}; a calibration needs both "
                "classes (widen the window)"
            )

    def _moments(self, column: str) -> tuple[float, float]:
        # Around the first value, not around 0: sums of squares of large, close numbers lose all digits.
        centre = float(getattr(self.log.rows(0, 1, time=column == "time"), column)[0])

        def work(first: int, last: int) -> tuple[float, float]:
            rows = self.log.rows(first, last, time=column == "time")
            values = getattr(rows, column).astype(np.float64) - centre
            weighted = values if rows.weight is None else values * rows.weight
            return float(np.sum(weighted)), float(np.sum(weighted * values))

        parts = np.array(list(in_spans(work, self.log.n_rows, self.options.workers)))
        shift, square = parts.sum(axis=0) / self.total_weight
        return centre + float(shift), float(np.sqrt(max(square - shift * shift, 0.0)))

    def _add_up(self, work: Any, n_keys: int) -> Sums:
        # Partial sums per key cost their number once a span: longer spans where there are many keys.
        span = SPAN_ROWS if n_keys <= 1 << 16 else 4 * SPAN_ROWS if n_keys <= 1 << 20 else 16 * SPAN_ROWS
        total: Sums = add_up(work, self.log.n_rows, self.options.workers, span)
        return total
