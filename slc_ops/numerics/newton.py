"""The damped Newton iteration of a link, of the items' offsets, and of both together.

The objective is convex, a function of a few coefficients of all rows (the *link*) and of many coefficients of
one item's rows each (the *offsets*). Its Hessian is an arrow,

    H = [ A   B ]    A: link × link;  B: one column per item;  D: a diagonal, one entry per item,
        [ Bᵀ  D ]

so a step costs a small solve of A − B·D⁻¹·Bᵀ and a few item-sized vectors. A link alone has no offsets; with
a fixed link, only D is left.

An undamped step diverges on real, badly scaled logits, so a step is halved until the function does not rise.
The error after a full step of length s is of the order of s²: a short step is the last one, without an
evaluation at its end, which would cost a pass over the rows. Tolerances are shares of the rows' total weight.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from slc_ops.base.errors import NotConvergedError
from slc_ops.numerics.kernels import Floats, dot

MAX_STEPS = 100
MAX_HALVINGS = 40
LAST_STEP = 1e-5
ROUNDING = 1e-13  # a gain below this share of the total weight is rounding error
MIN_CURVATURE = 1e-10  # curvature per unit of weight in a flat direction
FAR = 10.0  # a longer step of the link (in standardised units) results from a vanishing curvature
MAX_SLOPE = 1e6  # a slope on standardised logits that amounts to a step function
PERFECT = 1e-8  # a loss below this share of the total weight means a perfect prediction


@dataclass(frozen=True)
class State:
    """The coefficients of all rows, and one offset per item."""

    link: Floats
    offset: Floats

    def moved(self, step: "State", share: float = 1.0) -> "State":
        """Return the state after a share of a step."""
        return State(self.link + share * step.link, self.offset + share * step.offset)


@dataclass(frozen=True)
class Local:
    """A convex function at a state: its value, its gradient, and A, B (row by row) and D of its Hessian."""

    state: State
    value: float
    gradient: State
    block: Floats
    border: Sequence[Floats]
    diagonal: Floats

    def step(self, limit: float = np.inf) -> tuple[State, float]:
        """Return −H⁻¹g, and the decrease along it that the local curvature predicts.

        The link's part is limited to ``limit`` along the eigenvectors of its curvature. Where almost all rows
        are saturated, the curvature of some direction vanishes and does not describe the end of a long step;
        the limit must not affect the other directions.
        """
        reduced, right, slope = self.block, self.gradient.link, self.gradient.offset
        if len(self.border):
            scaled = [column / self.diagonal for column in self.border]
            reduced = reduced - [[dot(left, column) for column in self.border] for left in scaled]
            right = right - [dot(column, slope) for column in scaled]
        # A constant column gives a zero row; a ridge of the size of rounding keeps its step at 0.
        reduced = reduced + (1e-13 * float(np.trace(reduced)) + 1e-300) * np.eye(len(right))
        link: Floats = np.asarray(-np.linalg.solve(reduced, right), dtype=np.float64)
        if _longest(link) > limit:
            curvature, axes = np.linalg.eigh(reduced)
            # Below rounding an eigenvalue is noise; its direction is flat.
            curvature = np.maximum(curvature, 1e-15 * curvature[-1] + 1e-300)
            along = np.clip(-(axes.T @ right) / curvature, -limit, limit)
            link = np.asarray(axes @ along, dtype=np.float64)
        # Without items, and with a fixed link, there is no border.
        for column, change in zip(self.border, link, strict=False):
            slope = slope + column * change
        offset = -slope / self.diagonal
        return State(link, offset), -0.5 * (dot(self.gradient.link, link) + dot(self.gradient.offset, offset))


AnyLocal = TypeVar("AnyLocal", bound=Local)


@dataclass(frozen=True)
class Minimum(Generic[AnyLocal]):
    """The minimum of the function, the last evaluated state, and a flag for a minimum at infinity."""

    state: State
    near: AnyLocal
    separated: bool = False


def minimise(
    at: Callable[[State], AnyLocal],
    start: AnyLocal,
    weight: float,
    what: str,
    *,
    last_step: float = LAST_STEP,
    last_gain: float = 0.0,
) -> Minimum[AnyLocal]:
    """Return the minimum of a convex function, from ``start``.

    A step shorter than ``last_step``, or one with a predicted decrease below ``last_gain`` per unit of
    weight, is the last. Raises :class:`NotConvergedError` for ``what`` after ``MAX_STEPS`` steps.
    """
    here = start
    for _ in range(MAX_STEPS):
        step, promise = here.step(max(FAR, 2.0 * _longest(here.state.link)))
        length = max(_longest(step.link), _longest(step.offset))
        if not np.isfinite(promise):
            break
        if length < last_step or promise < last_gain * weight:
            return Minimum(here.state.moved(step), here, separated=here.value < PERFECT * weight)
        there = _damped(at, here, step, ROUNDING * weight)
        if there is None:
            if promise <= MIN_CURVATURE * weight:  # only rounding error is left
                return Minimum(here.state, here, separated=_longest(step.link) > 1e-2)
            break
        if here.value - there.value <= max(ROUNDING, MIN_CURVATURE * _longest(step.link) ** 2) * weight:
            # Long steps without a gain: the slope diverges, the likelihood approaches its limit.
            return Minimum(there.state, there, separated=_longest(step.link) > 1e-2)
        here = there
    if _longest(here.state.link) > MAX_SLOPE:
        return Minimum(here.state, here, separated=True)
    raise NotConvergedError(
        f"{what} did not converge within {MAX_STEPS} damped Newton steps (last step {length:.2g}); check for "
        "extreme logits or weights"
    )


def _damped(at: Callable[[State], AnyLocal], here: AnyLocal, step: State, rounding: float) -> AnyLocal | None:
    """Return the end of the step, or of half of it, a quarter, …, where the function is not higher."""
    for halvings in range(MAX_HALVINGS):
        there = at(here.state.moved(step, 0.5**halvings))
        if there.value <= here.value + rounding:
            return there
    return None


def _longest(step: Floats) -> float:
    return float(np.max(np.abs(step), initial=0.0))
