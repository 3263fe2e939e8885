"""The one damped Newton iteration: of a link, of the items' offsets, and of both together.

What is minimised is convex, a function of a few coefficients that concern all rows (the *link*) and of many
that concern the rows of one item each (the *offsets*). Its Hessian is an arrow,

    H = [ A   B ]    A: link × link;  B: one column per item;  D: a diagonal, one entry per item,
        [ Bᵀ  D ]

so a step costs a small solve of A − B·D⁻¹·Bᵀ and a few item-sized vectors. A link alone has no offsets; where
the link is fixed, only D is left.

An undamped step diverges on real, badly scaled logits, so a step is halved until the function does not rise.
What a full step of length s leaves behind is of the order of s²: a short step is the last one, and its end is
not visited, because a visit is a pass over the rows. Tolerances are shares of the rows' total weight.
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
ROUNDING = 1e-13  # a gain below this share of the total weight is none
MIN_CURVATURE = 1e-10  # curvature per unit of weight in a direction that leads nowhere
FAR = 10.0  # a longer step of the link (in standardised units) comes from a vanishing curvature
MAX_SLOPE = 1e6  # a slope on standardised logits that is a step from 0 to 1
PERFECT = 1e-8  # a loss below this share of the total weight means that every label is predicted


@dataclass(frozen=True)
class State:
    """The coefficients of all rows, and one offset per item."""

    link: Floats
    offset: Floats

    def moved(self, step: "State", share: float = 1.0) -> "State":
        """The state after a share of a step."""
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
        """The step from here (:func:`newton_step`), and what it promises; other Hessians have other ones."""
        return newton_step(self, limit)


AnyLocal = TypeVar("AnyLocal", bound=Local)


@dataclass(frozen=True)
class Minimum(Generic[AnyLocal]):
    """Where the function is smallest, the last state visited, and whether the minimum lies at infinity."""

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
    """The minimum of a convex function, from ``start``.

    A step shorter than ``last_step``, or one that promises to gain less than ``last_gain`` per unit of
    weight, is the last. Raises :class:`NotConvergedError` for ``what`` when the steps run out.
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
            if promise <= MIN_CURVATURE * weight:  # nothing but rounding is left
                return Minimum(here.state, here, separated=_longest(step.link) > 1e-2)
            break
        if here.value - there.value <= max(ROUNDING, MIN_CURVATURE * _longest(step.link) ** 2) * weight:
            # Long steps that gain nothing: the slope runs to infinity, the likelihood to its limit.
            return Minimum(there.state, there, separated=_longest(step.link) > 1e-2)
        here = there
    if _longest(here.state.link) > MAX_SLOPE:
        return Minimum(here.state, here, separated=True)
    raise NotConvergedError(
        f"{what} did not converge within {MAX_STEPS} damped Newton steps (last step {length:.2g}); look for "
        "extreme logits or weights"
    )


def _damped(at: Callable[[State], AnyLocal], here: AnyLocal, step: State, rounding: float) -> AnyLocal | None:
    """The end of the step, or of the first half of it, quarter, … where the function is not higher."""
    for halvings in range(MAX_HALVINGS):
        there = at(here.state.moved(step, 0.5**halvings))
        if there.value <= here.value + rounding:
            return there
    return None


def newton_step(here: Local, limit: float = np.inf) -> tuple[State, float]:
    """−H⁻¹g, and by how much the function falls along it if it is as curved as it looks here.

    The link's part is cut at ``limit`` along the eigenvectors of its curvature: where almost all rows are
    saturated, the curvature of some direction vanishes and says nothing about the far end of a long step; the
    other directions must not suffer from it.
    """
    reduced, right, slope = here.block, here.gradient.link, here.gradient.offset
    if len(here.border):
        scaled = [column / here.diagonal for column in here.border]
        reduced = reduced - [[dot(left, column) for column in here.border] for left in scaled]
        right = right - [dot(column, slope) for column in scaled]
    # A constant column leaves a zero row; a ridge of the matrix's own rounding keeps its step at 0.
    reduced = reduced + (1e-13 * float(np.trace(reduced)) + 1e-300) * np.eye(len(right))
    link: Floats = np.asarray(-np.linalg.solve(reduced, right), dtype=np.float64)
    if _longest(link) > limit:
        curvature, axes = np.linalg.eigh(reduced)
        # Below rounding an eigenvalue is noise; its direction is as good as flat.
        curvature = np.maximum(curvature, 1e-15 * curvature[-1] + 1e-300)
        along = np.clip(-(axes.T @ right) / curvature, -limit, limit)
        link = np.asarray(axes @ along, dtype=np.float64)
    for column, change in zip(here.border, link, strict=False):  # no border: no items, or a fixed link
        slope = slope + column * change
    offset = -slope / here.diagonal
    return State(link, offset), -0.5 * (dot(here.gradient.link, link) + dot(here.gradient.offset, offset))


def _longest(step: Floats) -> float:
    return float(np.max(np.abs(step), initial=0.0))
