"""Effects: the terms that a parameter set adds to a row's logit for its item, group and user.

An effect with offset o and slope d (0 if the method has none) adds o + d·(η − η̄) to a row of logit η.
A row without an id, or with an unknown one, gets 0. If the set has a separate line for unknown items, their
effect is the difference between that line and the link's.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from slc_ops.base.buffers import as_arrow, as_numpy
from slc_ops.base.errors import ParameterSetError
from slc_ops.base.ids import IdIndex
from slc_ops.numerics.curves import Affine
from slc_ops.numerics.kernels import Floats
from slc_ops.numerics.time_bins import time_bin

COLUMNS = {"item": "item_id", "group": "group_id", "user": "user_id"}
"""The effects that a set may have, in order of addition, mapped to columns of the log."""

SERVED = ("id", "time_bin", "offset", "slope", "offset_var")
"""The columns that determine a probability and its interval; the others serve reports."""

Positions = NDArray[Any]


@dataclass(frozen=True)
class Effect:
    """A table by id: ``id`` and ``offset``, and, depending on the method, ``slope``, ``offset_var``
    (posterior variance), ``n_obs`` (Σ weight), ``fisher_weight`` W and ``shrinkage`` λ.

    Rows ascend by id: one per id, or one per id and ``time_bin`` if ``time_edges`` is set.
    """

    table: pa.Table
    prior_var: float | None = None
    slope_prior_var: float | None = None
    time_edges: Floats | None = None

    @property
    def bins(self) -> int:
        """The number of rows per id."""
        return 1 if self.time_edges is None else len(self.time_edges) - 1

    @property
    def ids(self) -> pa.Array:
        """Each id once, in table order."""
        ids = self.table.column("id").combine_chunks()
        return ids if self.bins == 1 else ids.take(as_arrow(np.arange(0, len(ids), self.bins)))

    def of(self, wanted: str | int) -> pa.Table | None:
        """Return the rows of one id, one per time bin; None for an unknown id."""
        index = IdIndex(self.ids)
        position = index.position(wanted)
        return None if position < 0 else self.table.slice(position * self.bins, self.bins)

    def latest(self) -> pa.Table:
        """Return one row per id: with several time bins the last, which serves."""
        if self.bins == 1:
            return self.table
        return self.table.take(as_arrow(np.arange(self.bins - 1, self.table.num_rows, self.bins)))

    def same_answers(self, other: "Effect") -> bool:
        """Return True if both give bit-identical results for every row."""
        one, two = (() if each.time_edges is None else each.time_edges for each in (self, other))
        return np.array_equal(one, two) and bool(self.table.equals(other.table))

    def check(self, name: str) -> None:
        """Raise `ParameterSetError` unless the table has valid columns and unique, ascending ids."""
        table, bins = self.table, self.bins
        kind = table.schema.field("id").type if {"id", "offset"} <= set(table.column_names) else None
        if kind not in (pa.int64(), pa.string()):
            raise ParameterSetError(
                f"the effect {name} has the columns {', '.join(table.column_names)}; expected id (int64 or "
                "string) and offset"
            )
        for column in ("offset", "slope"):
            if column in table.column_names and not _all_finite(table.column(column)):
                raise ParameterSetError(f"the effect {name} has a {column} that is no finite number")
        if table.column("id").null_count:
            raise ParameterSetError(f"the effect {name} has a row without an id")
        once = self.ids
        twice = pc.greater_equal(once.slice(0, max(len(once) - 1, 0)), once.slice(min(1, len(once))))
        if pc.any(twice).as_py():
            example = once[pc.index(twice, True).as_py() + 1].as_py()
            raise ParameterSetError(
                f"the effect {name} has the id {str(example)!r:.60} twice, or its ids do not ascend"
            )
        if bins > 1:
            edges = np.asarray(self.time_edges)
            expected = np.tile(np.arange(bins), len(once))
            each_bin = pa.chunked_array([once.take(as_arrow(np.repeat(np.arange(len(once)), bins)))])
            if (
                "time_bin" not in table.column_names
                or not np.array_equal(as_numpy(table.column("time_bin")), expected)
                or not table.column("id").equals(each_bin)
                or not (np.diff(edges) > 0).all()
            ):
                raise ParameterSetError(f"the effect {name} has not {bins} time bins for each id, 0, 1, 2 …")


def _all_finite(column: pa.ChunkedArray) -> bool:
    return (
        column.null_count == 0 and column.type == pa.float64() and bool(np.isfinite(as_numpy(column)).all())
    )


@dataclass(frozen=True)
class Added:
    """Terms to add to logits, by position; the last entry is for unknown ids (position −1)."""

    offset: Floats
    slope: Floats | None
    logit_mean: float
    time_edges: Floats | None
    cold: Affine | None
    """The line of unknown items minus that of known ones, as a function of η₀."""

    def cells(self, positions: Positions, time: Floats | None) -> Positions:
        """Return each row's index in the tables: that of its id and time bin (the last bin without times)."""
        if self.time_edges is None:
            return positions
        bins = len(self.time_edges) - 1
        cells: Positions = positions * np.intp(bins)  # that of position −1 addresses the end
        cells += bins - 1 if time is None else time_bin(time, self.time_edges)
        return cells

    def at(self, positions: Positions, logit: Floats, time: Floats | None) -> Floats:
        """Return the term of each row."""
        cells = self.cells(positions, time)
        added: Floats = self.offset.take(cells)
        if self.slope is not None:
            added += self.slope.take(cells) * (logit - self.logit_mean)
        if self.cold is not None:
            added = np.where(positions < 0, self.cold.a * logit + self.cold.b0, added)
        return added

    def at_one(self, position: int, logit: float, time: Floats | None) -> float:
        """Return the term of one row."""
        if self.time_edges is not None:
            return float(self.at(np.array([position]), np.array([logit]), time)[0])
        if position < 0 and self.cold is not None:
            return self.cold.a * logit + self.cold.b0
        added = self.offset.item(position)
        return added if self.slope is None else added + self.slope.item(position) * (logit - self.logit_mean)


class Lookup:
    """An effect prepared for serving: maps ids to terms."""

    def __init__(self, name: str, effect: Effect, logit_mean: float, cold: Affine | None) -> None:
        self.name, self._effect = name, effect
        self.index = IdIndex(effect.ids, COLUMNS[name])
        offset, slope = (self._by_position(column, 0.0) for column in ("offset", "slope"))
        if offset is None:
            raise ValueError(f"the effect {name} has no column offset")
        self.added = Added(offset, slope, logit_mean, effect.time_edges, cold)

    @cached_property
    def _variance(self) -> Floats | None:
        prior = self._effect.prior_var
        return None if prior is None else self._by_position("offset_var", prior)

    def variance(self, positions: Positions, time: Floats | None) -> Floats | None:
        """Return the posterior variance of each row's offset, for an unknown id the prior variance."""
        return None if self._variance is None else self._variance.take(self.added.cells(positions, time))

    def _by_position(self, column: str, unknown: float) -> Floats | None:
        """Return a column and its value for unknown ids; with time bins, each id has an entry per bin."""
        table = self._effect.table
        if column not in table.column_names:
            return None
        values = table.column(column)
        if values.null_count:
            values = values.fill_null(float("nan"))
        return np.append(as_numpy(values), np.full(self._effect.bins, unknown))
