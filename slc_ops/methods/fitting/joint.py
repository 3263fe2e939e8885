"""Link and offsets together: the penalised likelihood of p = σ(α·x + γ + bᵢ), maximised jointly.

    f(α, γ, b) = −Σ w·log-likelihood + Σᵢ bᵢ²/(2v),    x = (η₀ − mean)/spread, v the prior variance

is convex. Alternating between the link (α, γ) and the offsets b until neither moves ends at its minimum; so
does Newton's method on both at once, in a fifth of the passes. The Hessian is an arrow: a 2×2 block A for
the link, a diagonal D = W + 1/v for the items, and one column of B = (Σwp(1−p)x, Σwp(1−p)) per item between
them, so a step costs a 2×2 solve of A − B·D⁻¹·Bᵀ and a few item-sized vectors. The iteration is that of
:mod:`slc_ops.numerics.newton`.

One pass over the rows gives all sums that a step needs; sums of spans add up in a fixed order.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slc_ops.methods.fitting.offset_newton import homogeneous_offsets
from slc_ops.numerics.kernels import (
    Floats,
    Sums,
    dot,
    probability,
    slices,
    sum_of_logs,
    total,
)
from slc_ops.numerics.newton import descend
from slc_ops.rows.passes import Totals
from slc_ops.rows.rows import Rows, RowSource

LAST_STEP = 1e-5
STEEP = 1e6  # a slope on standardised logits that is a step from 0 to 1
FLAT = 1e-13  # a gain below this share of the total weight is no gain any more
SPAN_ROWS = 1 << 17
MANY_ITEMS = 1 << 18


@dataclass(frozen=True)
class State:
    """(α, γ) on standardised logits, and one offset per item."""

    link: Floats
    offset: Floats

    def moved(self, step: "State", share: float = 1.0) -> "State":
        """The state after a share of a step."""
        return State(self.link + share * step.link, self.offset + share * step.offset)


@dataclass
class JointSums:
    """What one pass gives: Σ −log-likelihood, Σwr·x, Σwh·x², and per item Σwr, W = Σwh and Σwh·x.

    r = p − y and h = p(1 − p). The rest of the link's gradient and of A are totals over the items.
    """

    nll: float
    pull: float
    square: float
    residual: Floats
    fisher: Floats
    cross: Floats

    def add(self, other: "JointSums") -> None:
        """Take up the sums of further rows."""
        self.nll += other.nll
        self.pull += other.pull
        self.square += other.square
        self.residual += other.residual
        self.fisher += other.fisher
        self.cross += other.cross


@dataclass(frozen=True)
class Visited:
    """A state and the sums taken there."""

    state: State
    sums: JointSums

    def objective(self, variance: float) -> float:
        """f."""
        return self.sums.nll + dot(self.state.offset, self.state.offset) / (2 * variance)

    def newton(self, variance: float) -> tuple[State, float]:
        """The step towards the minimum of f, and how much f falls by it if f is as curved as it looks."""
        gradient, hessian = self._of_link()
        sums = self.sums
        border = (sums.cross, sums.fisher)
        diagonal = sums.fisher + 1.0 / variance
        slope = sums.residual + self.state.offset / variance
        scaled = [column / diagonal for column in border]
        reduced = hessian - [[dot(left, right) for right in border] for left in scaled]
        link = -_solve(reduced, gradient - [dot(column, slope) for column in scaled])
        offset = -(slope + sums.cross * link[0] + sums.fisher * link[1]) / diagonal
        return State(link, offset), -0.5 * (dot(gradient, link) + dot(slope, offset))

    def relinked(self, offset: Floats) -> Floats:
        """The link that goes with other offsets: one Newton step of (α, γ) alone."""
        gradient, hessian = self._of_link()
        shift = offset - self.state.offset
        pull = np.array([dot(self.sums.cross, shift), dot(self.sums.fisher, shift)])
        return np.asarray(self.state.link - _solve(hessian, gradient + pull))

    def homogeneous(self, items: Sums, variance: float) -> Floats:
        """The offsets that would be best with this link if the rows of an item were all equal."""
        here = Sums(items.n, items.y, items.y + self.sums.residual, self.sums.fisher)
        return homogeneous_offsets(here, self.state.offset, 1.0 / variance)

    def _of_link(self) -> tuple[Floats, Floats]:
        sums, mixed = self.sums, float(self.sums.cross.sum())
        gradient = np.array([sums.pull, sums.residual.sum()])
        return gradient, np.array([[sums.square, mixed], [mixed, sums.fisher.sum()]])


@dataclass(frozen=True)
class Minimum:
    """Where f is smallest, the last state visited (one short step away), and whether it has no finite end."""

    state: State
    near: Visited
    separated: bool = False


@dataclass(frozen=True)
class JointModel:
    """The rows of a fit and how their logits are standardised (``spread`` 0: all logits are equal)."""

    source: RowSource
    n_items: int
    mean: float
    spread: float
    workers: int
    base: Floats | None = None
    """The prior mean of the offsets, where it is not 0: a state's offsets are what is added to it."""

    def whole(self, state: State) -> State:
        """The state with the offsets that rows get."""
        return state if self.base is None else State(state.link, state.offset + self.base)

    def visit(self, state: State) -> Visited:
        """One pass over the rows."""
        kernel = partial(_joint_sums, self.n_items, Scale(self.mean, self.spread), self.whole(state))
        # Short spans warm the cache; where items are very many, their sums per span cost more than that.
        span = SPAN_ROWS if self.n_items <= MANY_ITEMS else None
        found = self.source.add_up(kernel, threads=self.workers, n_keys=self.n_items, span_rows=span)
        return Visited(state, found)

    def minimise(self, start: Visited, variance: float, last_gain: float = 0.0) -> Minimum:
        """The minimum of f.

        What a full step of length s leaves behind is of the order of s², so a step shorter than
        ``LAST_STEP``, or one that promises less than ``last_gain`` per row, is the last one and needs no
        further pass.
        """
        found = descend(JointProblem(self, variance, last_gain), start)
        here, step = found.point, found.step
        if found.end == "last step":
            return Minimum(here.state.moved(step.state), here)
        if found.end == "out of steps":
            if float(np.max(np.abs(here.state.link))) > STEEP:
                return Minimum(here.state, here, separated=True)
            raise found.not_converged("link and offsets together")
        # Long steps that gain nothing: the slope runs to infinity, the likelihood to its limit.
        return Minimum(here.state, here, separated=float(np.max(np.abs(step.state.link))) > 1e-2)

    def approached(self, start: Visited, items: Sums, variance: float) -> Visited:
        """A state nearer to the minimum, where the link is about right and many offsets are still far off.

        Two passes do what Newton's method would need four or five for.
        """
        here = start
        for _ in range(2):
            there = self.visit(State(here.state.link, here.homogeneous(items, variance)))
            if there.objective(variance) > here.objective(variance):
                break
            here = there
        return here

    def loss(self, state: State) -> float:
        """The negative log-likelihood of the rows."""
        kernel = partial(_loss, Scale(self.mean, self.spread), self.whole(state))
        return float(self.source.add_up(kernel, threads=self.workers, span_rows=SPAN_ROWS).values[0])

    def losses_by_user(self, one: State, other: State, n_users: int) -> Floats:
        """Σ of the difference in loss between two states, given whole, of every user that has a row."""
        kernel = partial(_losses_by_user, Scale(self.mean, self.spread), one, other, n_users)
        found = self.source.add_up(kernel, threads=self.workers, columns={"user"}, n_keys=n_users)
        return np.asarray(found.values[0][found.values[1] > 0])


@dataclass(frozen=True)
class JointStep:
    """A step of link and offsets."""

    state: State
    length: float
    last: bool


@dataclass(frozen=True)
class JointProblem:
    """f of some rows; a step that promises less than ``last_gain`` per row is the last one."""

    model: JointModel
    variance: float
    last_gain: float = 0.0

    def step(self, here: Visited) -> JointStep:
        """Newton's step."""
        step, promise = here.newton(self.variance)
        length = max(float(np.max(np.abs(values), initial=0.0)) for values in (step.link, step.offset))
        last = length < LAST_STEP or promise < self.last_gain * self.model.source.n_rows
        return JointStep(step, length, last)

    def visit(self, here: Visited, step: JointStep, share: float) -> Visited:
        """One pass at a share of the step."""
        return self.model.visit(here.state.moved(step.state, share))

    def accepts(self, here: Visited, there: Visited) -> bool:
        """f must not rise."""
        return there.objective(self.variance) <= here.objective(self.variance) + self._rounding

    def gains_nothing(self, here: Visited, there: Visited, step: JointStep) -> bool:
        """A gain that rounding explains is none."""
        return here.objective(self.variance) - there.objective(self.variance) <= self._rounding

    @property
    def _rounding(self) -> float:
        return FLAT * self.model.source.n_rows


@dataclass(frozen=True)
class Scale:
    """How logits are standardised; ``spread`` 0 means that they are all equal."""

    mean: float
    spread: float

    def at(self, state: State, rows: Rows, part: slice) -> "_Slice":
        """A few rows at a state."""
        x = np.subtract(rows.logit[part], self.mean, dtype=np.float64)
        x *= 1.0 / self.spread if self.spread else 0.0
        eta = state.offset.take(rows.codes[part], mode="clip")
        eta += x * state.link[0]
        eta += state.link[1]
        weight = None if rows.weight is None else rows.weight[part]
        return _Slice(x, eta, np.exp(-np.abs(eta)), rows.label[part], weight)


def _joint_sums(n_items: int, scale: Scale, state: State, rows: Rows) -> JointSums:
    residual, fisher, cross = np.empty((3, len(rows)))
    nll = pull = square = 0.0
    for part in slices(len(rows)):
        at = scale.at(state, rows, part)
        nll += at.loss()
        at.residual_and_fisher(residual[part], fisher[part])
        np.multiply(fisher[part], at.x, out=cross[part])
        pull += dot(residual[part], at.x)
        square += dot(cross[part], at.x)
    keys = rows.codes.astype(np.intp)
    items = [total(keys, values, n_items) for values in (residual, fisher, cross)]
    return JointSums(nll, pull, square, *items)


def _loss(scale: Scale, state: State, rows: Rows) -> Totals:
    return Totals(np.array([sum(scale.at(state, rows, part).loss() for part in slices(len(rows)))]))


def _losses_by_user(scale: Scale, one: State, other: State, n_users: int, rows: Rows) -> Totals:
    assert rows.user is not None  # noqa: S101 - the pass asked for users
    gain = np.empty(len(rows))
    for part in slices(len(rows)):
        gain[part] = scale.at(one, rows, part).losses()
        gain[part] -= scale.at(other, rows, part).losses()
    return Totals(
        np.array([np.bincount(rows.user, each, n_users) for each in (gain, None)], dtype=np.float64)
    )


@dataclass(frozen=True)
class _Slice:
    """A few rows at one state: x, η, e = e^−|η| (see the kernels), labels and weights."""

    x: Floats
    eta: Floats
    e: Floats
    label: NDArray[Any]
    weight: NDArray[Any] | None

    def losses(self) -> Floats:
        loss: Floats = np.maximum(self.eta, 0.0) - self.label * self.eta + np.log(1.0 + self.e)
        return loss if self.weight is None else loss * self.weight

    def loss(self) -> float:
        if self.weight is not None:
            return float(np.sum(self.losses()))
        above = float(np.sum(np.maximum(self.eta, 0.0)))
        return sum_of_logs(self.e + 1.0) + above - dot(self.label.astype(np.float64), self.eta)

    def residual_and_fisher(self, residual: Floats, fisher: Floats) -> None:
        probability(self.eta, self.e, residual, fisher)
        residual -= self.label
        fisher *= self.e
        if self.weight is not None:
            residual *= self.weight
            fisher *= self.weight


def _solve(matrix: Floats, right: Floats) -> Floats:
    # A constant logit leaves a zero row; a ridge of the matrix's own rounding keeps its step at 0.
    ridge = 1e-13 * float(np.trace(matrix)) + 1e-300
    return np.asarray(np.linalg.solve(matrix + ridge * np.eye(len(right)), right), dtype=np.float64)
