"""The one damped Newton iteration: of the link, of the items' offsets, and of both together.

What is minimised is convex. An undamped step diverges on real, badly scaled logits, so a step is halved until
its end is accepted. A pass over the rows is expensive, and a step says itself when it is so short that its
end needs no further pass. The step is the problem's own:

* :mod:`slc_ops.numerics.link_newton`: a few coefficients, Newton's step with Chebyshev's correction;
* :mod:`slc_ops.methods.fitting.offset_newton`: one offset per item, each in a bracket of its own;
* :mod:`slc_ops.methods.fitting.joint`: both, through the bordered Hessian.
"""

from dataclasses import dataclass
from typing import Generic, Literal, Protocol, TypeVar

from slc_ops.base.errors import NotConvergedError

MAX_STEPS = 100
MAX_HALVINGS = 40

Point = TypeVar("Point")
AnyStep = TypeVar("AnyStep", bound="Step")


class Step(Protocol):
    """Where to go from a point; the last step is not visited any more."""

    @property
    def last(self) -> bool: ...

    @property
    def length(self) -> float: ...


class Problem(Protocol[Point, AnyStep]):
    """A convex function, seen from points that cost a pass over the rows each."""

    def step(self, here: Point) -> AnyStep:
        """The next step, from what is known here."""
        ...

    def visit(self, here: Point, step: AnyStep, share: float) -> Point:
        """A pass over the rows, at this share of the step."""
        ...

    def accepts(self, here: Point, there: Point) -> bool:
        """Whether a step may end there; otherwise it is halved."""
        ...

    def gains_nothing(self, here: Point, there: Point, step: AnyStep) -> bool:
        """Whether this step shows that further ones lead nowhere."""
        ...


@dataclass(frozen=True)
class Descent(Generic[Point, AnyStep]):
    """The last point visited, the step from it (or, where that gained nothing, to it), and how it ended."""

    point: Point
    step: AnyStep
    end: Literal["last step", "no gain", "no step accepted", "out of steps"]

    def not_converged(self, what: str) -> NotConvergedError:
        """The error for an end that is none."""
        return NotConvergedError(
            f"{what} did not converge within {MAX_STEPS} damped Newton steps (last step "
            f"{self.step.length:.2g}); look for extreme logits or weights"
        )


def descend(problem: Problem[Point, AnyStep], start: Point) -> Descent[Point, AnyStep]:
    """Step after step from ``start``, until one is the last or gains nothing."""
    here = start
    for _ in range(MAX_STEPS):
        step = problem.step(here)
        if step.last:
            return Descent(here, step, "last step")
        there = damped(problem, here, step)
        if there is None:
            return Descent(here, step, "no step accepted")
        if problem.gains_nothing(here, there, step):
            return Descent(there, step, "no gain")
        here = there
    return Descent(here, step, "out of steps")


def damped(problem: Problem[Point, AnyStep], here: Point, step: AnyStep) -> Point | None:
    """The end of the step or of the first half of it, quarter, … that is accepted; None when none is."""
    for halvings in range(MAX_HALVINGS):
        there = problem.visit(here, step, 0.5**halvings)
        if problem.accepts(here, there):
            return there
    return None
