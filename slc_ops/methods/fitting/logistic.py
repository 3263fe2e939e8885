"""The model of the rows: p = σ(Σⱼ βⱼxⱼ + γ + δ + bᵢ), with known δ and offsets b by item.

    f(β, γ, b) = −Σ w·log-likelihood + Σᵢ bᵢ²/(2v),    x = (η₀ − mean)/spread (and time), v the prior variance

is convex, and :func:`slc_ops.numerics.newton.minimise` finds its minimum:

* a *link* has no offsets b (:mod:`slc_ops.methods.fitting.link`);
* link and offsets *together* are ``slc_eb``. Alternating between the two until convergence would end at the
  same minimum, in five times the passes;
* offsets under a *fixed link* are ``ridge``.

One pass over the rows gives all sums of a step; sums of spans are added in a fixed order.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slc_ops.methods.fitting.calibration import Offsets
from slc_ops.numerics.kernels import (
    Floats,
    RowsAt,
    RowSums,
    Sums,
    dot,
    homogeneous_offsets,
    row_sums,
    slices,
)
from slc_ops.numerics.newton import LAST_STEP, Local, Minimum, State, minimise
from slc_ops.rows.passes import Totals
from slc_ops.rows.rows import NO_COLUMNS, TIME, Columns, InSpans, Rows, RowSource

SPAN_ROWS = 1 << 17
MANY_ITEMS = 1 << 18
NO_OFFSETS: Floats = np.empty(0)


@dataclass(frozen=True)
class Terms:
    """The terms of η: (column, mean, spread) of each covariate, the intercept, known offsets, items.

    Covariates are standardised, so that logits of any scale behave the same; ``spread`` 0 means that all
    values are equal, and the covariate is 0.
    """

    covariates: tuple[tuple[str, float, float], ...]
    n_items: int = 0
    known: Offsets | None = None
    intercept: bool = True

    @property
    def columns(self) -> Columns:
        """Columns that a pass needs."""
        time = any(name == "time" for name, _, _ in self.covariates)
        return (NO_COLUMNS if self.known is None else self.known.columns) | (TIME if time else NO_COLUMNS)

    def at(self, state: State, rows: Rows, part: slice) -> RowsAt:
        """Return η and its parts for a slice of rows at a state."""
        rows = rows.chosen(part)
        columns = [standardised(getattr(rows, name), mean, spread) for name, mean, spread in self.covariates]
        eta = state.offset.take(rows.codes, mode="clip") if self.n_items else np.zeros(len(rows))
        if self.known is not None:
            eta += self.known.added(rows)
        for x, coefficient in zip(columns, state.link, strict=False):
            eta += x * coefficient
        if self.intercept:
            eta += state.link[-1]
        return RowsAt(columns, eta, np.exp(-np.abs(eta)), rows.label, rows.weight)


@dataclass(frozen=True)
class Evaluated(Local):
    """f at a state, under a variance, and the sums of the rows there."""

    sums: RowSums
    terms: Terms

    @classmethod
    def of(cls, state: State, sums: RowSums, terms: Terms, variance: float, free: bool = True) -> "Evaluated":
        """Compute f from the sums; a link that is not ``free`` has no gradient."""
        gradient, block = _of_link(sums, terms)
        slope, diagonal, border = NO_OFFSETS, NO_OFFSETS, ()
        if terms.n_items:
            slope, diagonal = sums.residual + state.offset / variance, sums.fisher + 1.0 / variance
            border = (*sums.cross, sums.fisher)
        if not free:
            gradient, block, border = np.zeros(len(state.link)), np.eye(len(state.link)), ()
        value = sums.nll + dot(state.offset, state.offset) / (2 * variance)
        return cls(state, value, State(gradient, slope), block, border, diagonal, sums, terms)

    def under(self, variance: float, free: bool = True) -> "Evaluated":
        """Return the same state under another variance, without a pass."""
        return Evaluated.of(self.state, self.sums, self.terms, variance, free)

    def relinked(self, offset: Floats) -> State:
        """Return the state with other offsets and their link: one Newton step of the link alone."""
        gradient, block = _of_link(self.sums, self.terms)
        shift = offset - self.state.offset
        pull = np.array([dot(column, shift) for column in (*self.sums.cross, self.sums.fisher)])
        alone = Local(self.state, self.value, State(gradient + pull, NO_OFFSETS), block, (), NO_OFFSETS)
        return State(self.state.link + alone.step()[0].link, offset)

    def homogeneous(self, items: Sums, variance: float) -> State:
        """Return the best offsets for this link under the assumption that an item's rows are all equal."""
        here = Sums(items.n, items.y, items.y + self.sums.residual, self.sums.fisher)
        return State(self.state.link, homogeneous_offsets(here, self.state.offset, 1.0 / variance))


@dataclass(frozen=True)
class Logistic:
    """The model of some rows, of a total ``weight``."""

    source: RowSource
    weight: float
    workers: int
    terms: Terms

    def visit(self, state: State, variance: float = np.inf, free: bool = True) -> Evaluated:
        """Evaluate f in one pass over the rows."""
        # Short spans fit the CPU cache; with very many items, their sums per span cost more than that saves.
        span = SPAN_ROWS if self.terms.n_items <= MANY_ITEMS else None
        sums = self.source.add_up(
            partial(_sums, self.terms, state),
            threads=self.workers,
            columns=self.terms.columns,
            n_keys=max(self.terms.n_items, 1),
            span_rows=span,
        )
        return Evaluated.of(state, sums, self.terms, variance, free)

    def minimise(
        self,
        start: Evaluated,
        variance: float = np.inf,
        *,
        free: bool = True,
        last_step: float = LAST_STEP,
        last_gain: float = 0.0,
    ) -> Minimum[Evaluated]:
        """Minimise f, over the offsets alone if the link is not ``free``."""
        parts = ["the link"] * free + ["the item offsets"] * (self.terms.n_items > 0)
        return minimise(
            partial(self.visit, variance=variance, free=free),
            start.under(variance, free),
            self.weight,
            " and ".join(parts),
            last_step=last_step,
            last_gain=last_gain,
        )

    def warm_started(self, start: Evaluated, items: Sums, variance: float) -> Evaluated:
        """Return a state nearer to the minimum, if the link is nearly right and many offsets are far off.

        Two passes replace four or five of Newton's method.
        """
        here = start.under(variance)
        for _ in range(2):
            there = self.visit(here.homogeneous(items, variance), variance)
            if there.value > here.value:
                break
            here = there
        return here

    def on(self, rows: Rows) -> "Logistic":
        """Return the model of some of the rows."""
        part = SampledRows(rows)
        return replace(self, source=part, weight=part.weight)

    def loss(self, state: State) -> float:
        """Return the negative log-likelihood of the rows."""
        kernel = partial(_loss, self.terms, state)
        found = self.source.add_up(
            kernel, threads=self.workers, columns=self.terms.columns, span_rows=SPAN_ROWS
        )
        return float(found.values[0])

    def losses(self, rows: Rows, state: State) -> Floats:
        """Return the negative log-likelihood of each of these rows."""
        return np.concatenate([self.terms.at(state, rows, part).losses() for part in slices(len(rows))])


@dataclass(frozen=True)
class SampledRows(InSpans):
    """A copy of some rows of a log."""

    selected: Rows

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.selected)

    @property
    def weight(self) -> float:
        """Σw."""
        weight = self.selected.weight
        return float(self.n_rows if weight is None else np.sum(weight, dtype=np.float64))

    def rows(self, first: int, last: int, columns: Columns = NO_COLUMNS) -> Rows:
        """Return a span of the rows, with all copied columns."""
        return self.selected.chosen(slice(first, last))


def _of_link(sums: RowSums, terms: Terms) -> tuple[Floats, Floats]:
    """Return the link's gradient and Hessian block; the intercept's entries are totals over the keys."""
    if not terms.intercept:
        return sums.pull, sums.square
    mixed = sums.cross.sum(axis=1)
    gradient = np.append(sums.pull, sums.residual.sum())
    block = np.block([[sums.square, mixed[:, None]], [mixed[None, :], sums.fisher.sum()[None, None]]])
    return gradient, block


def _sums(terms: Terms, state: State, rows: Rows) -> RowSums:
    at = partial(terms.at, state, rows)
    keys = rows.codes if terms.n_items else None
    return row_sums(len(rows), len(terms.covariates), at, keys, max(terms.n_items, 1))


def _loss(terms: Terms, state: State, rows: Rows) -> Totals:
    return Totals(np.array([sum(terms.at(state, rows, part).loss() for part in slices(len(rows)))]))


def standardised(values: NDArray[Any] | None, mean: float, spread: float) -> Floats:
    """Return a covariate with mean 0 and spread 1; 0 if all values are equal (spread 0)."""
    assert values is not None  # noqa: S101 - the pass requests times
    x: Floats = np.subtract(values, mean, dtype=np.float64)
    x *= 1.0 / spread if spread else 0.0
    return x
