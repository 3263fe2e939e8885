from dataclasses import dataclass, field

import numpy as np
import pytest

from slc_ops.base.errors import NotConvergedError
from slc_ops.numerics.newton import MAX_HALVINGS, MAX_STEPS, damped, descend


@dataclass
class Step:
    change: float
    last: bool

    @property
    def length(self):
        return abs(self.change)


@dataclass
class Cosh:
    """log cosh x: Newton's step from |x| > 1.09 overshoots further and further."""

    least: float = 0.0
    visits: list = field(default_factory=list)

    def step(self, here):
        change = -np.sinh(here) * np.cosh(here)
        return Step(change, abs(change) < 1e-7)

    def visit(self, here, step, share):
        self.visits.append(here + share * step.change)
        return self.visits[-1]

    def accepts(self, here, there):
        return np.log(np.cosh(there)) <= np.log(np.cosh(here))

    def gains_nothing(self, here, there, step):
        return np.log(np.cosh(here)) - np.log(np.cosh(there)) <= self.least


def test_steps_that_overshoot_are_halved_until_the_minimum_is_found():
    problem = Cosh()
    found = descend(problem, 3.0)
    assert found.end == "last step"
    assert abs(found.point + found.step.change) < 1e-12
    # From 3 a whole step would end at −98: it was halved, and never taken to where the function is higher.
    assert max(map(abs, problem.visits)) > 90
    assert damped(problem, 3.0, problem.step(3.0)) in problem.visits


def test_a_step_that_gains_nothing_ends_the_descent_where_it_led():
    found = descend(Cosh(least=np.inf), 0.5)
    assert found.end == "no gain"
    assert abs(found.point) < 0.5


class NothingIsAccepted(Cosh):
    def accepts(self, here, there):
        return False


class NeverLast(Cosh):
    def step(self, here):
        return Step(0.0, False)


@pytest.mark.parametrize(
    ("problem", "end", "passes"),
    [(NothingIsAccepted(), "no step accepted", MAX_HALVINGS), (NeverLast(-1.0), "out of steps", MAX_STEPS)],
)
def test_a_descent_that_does_not_end_says_so(problem, end, passes):
    found = descend(problem, 0.5)
    assert (found.end, found.point, len(problem.visits)) == (end, 0.5, passes)
    with pytest.raises(NotConvergedError, match="the link did not converge within 100 damped Newton steps"):
        raise found.not_converged("the link")
