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
        ids = table.column("id").combine_chunks()
        starts = as_arrow(np.arange(0, len(ids), bins))
        once = ids if bins == 1 else ids.take(starts)
        twice = pc.greater_equal(once.slice(0, max(len(once) - 1, 0)), once.slice(min(1, len(once))))
        if pc.any(twice).as_py():
            example = once[pc.index(twice, True).as_py() + 1].as_py()
            raise ParameterSetError(
                f"the effect {name} has the id {str(example)!r:.60} twice, or its ids do not ascend"
            )
        if bins > 1:
            edges = np.asarray(self.time_edges)
            expected = np.tile(np.arange(bins), len(once))
            if (
                "time_bin" not in table.column_names
                or not np.array_equal(as_numpy(table.column("time_bin")), expected)
                or not ids.equals(once.take(as_arrow(np.repeat(np.arange(len(once)), bins))))
                or not (np.diff(edges) > 0).all()
            ):
                raise ParameterSetError(f"the effect {name} has not {bins} time bins for each id, 0, 1, 2 …")


def _all_finite(column: pa.ChunkedArray) -> bool:
    return (
        column.null_count == 0 and column.type == pa.float64() and bool(np.isfinite(as_numpy(column)).all())
    )


def by_item(
    table: pa.Table, prior_var: float | None = None, time_edges: Floats | None = None
) -> dict[str, Effect]:
    """Return the effects of a method that corrects by item only."""
    return {"item": Effect(table, prior_var, time_edges=time_edges)}


@dataclass(frozen=True)
class ColdShift:
    """The line of unknown items minus the line of known ones, as a function of η₀."""

    a: float
    b0: float


@dataclass(frozen=True)
class Added:
    """Terms to add to logits, by position; the last entry is for unknown ids (position −1)."""

    offset: Floats
    slope: Floats | None
    logit_mean: float
    time_edges: Floats | None
    cold: ColdShift | None
    unknown: NDArray[np.bool_] | None = None
    """True at positions of unknown ids; None if only the last position is one."""

    def by_code(self, positions: Positions) -> "Added":
        """Return the same terms indexed by a log's codes, given each code's position; code −1 is no id."""
        chosen = np.append(positions, np.int32(-1))
        unknown = None if self.cold is None else chosen < 0
        slope = None if self.slope is None else self.slope[chosen]
        return Added(self.offset[chosen], slope, self.logit_mean, self.time_edges, self.cold, unknown)

    def at(self, positions: Positions, logit: Floats, time: Floats | None) -> Floats:
        """Return the term of each row, in the row's time bin (the last bin without times)."""
        cells: Positions = positions
        if self.time_edges is not None:
            # One index into the flat table; position −1 (unknown id) addresses its end.
            bins = len(self.time_edges) - 1
            cells = positions * np.intp(bins)
            cells += bins - 1 if time is None else time_bin(time, self.time_edges)
        added: Floats = self.offset.ravel().take(cells)
        if self.slope is not None:
            added += self.slope.ravel().take(cells) * (logit - self.logit_mean)
        if self.cold is not None:
            unknown = positions < 0 if self.unknown is None else self.unknown.take(positions)
            added = np.where(unknown, self.cold.a * logit + self.cold.b0, added)
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

    def __init__(self, name: str, effect: Effect, logit_mean: float, cold: ColdShift | None) -> None:
        self.name, self.column, bins = name, COLUMNS[name], effect.bins
        self.index = IdIndex(effect.ids, self.column)
        offset, slope = (self._ordered(effect, column, bins) for column in ("offset", "slope"))
        if offset is None:
            raise ValueError(f"the effect {name} has no column offset")
        self.added = Added(offset, slope, logit_mean, effect.time_edges, cold)
        self._effect = effect

    @cached_property
    def variance(self) -> Floats | None:
        """The offsets' posterior variances, a column per time bin; the last row is the prior variance."""
        effect = self._effect
        if "offset_var" not in effect.table.column_names or effect.prior_var is None:
            return None
        stored = effect.table.column("offset_var").to_numpy(zero_copy_only=False).reshape(-1, effect.bins)
        return np.vstack([stored, np.full(effect.bins, effect.prior_var)])

    def _ordered(self, effect: Effect, column: str, bins: int) -> Floats | None:
        if column not in effect.table.column_names:
            return None
        values = as_numpy(effect.table.column(column))
        if effect.time_edges is None:
            return np.append(values, 0.0)
        return np.vstack([values.reshape(-1, bins), np.zeros(bins)])
