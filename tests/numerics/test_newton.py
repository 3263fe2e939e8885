from dataclasses import replace

import numpy as np
import pytest

from slc_ops.base.errors import NotConvergedError
from slc_ops.numerics.newton import MAX_STEPS, Local, State, minimise

NOTHING = np.empty(0)


def log_cosh(visits: list[float]):
    """log cosh x: Newton's step diverges from |x| > 1.09."""

    def at(state: State) -> Local:
        x = float(state.link[0])
        visits.append(x)
        value = abs(x) + np.log1p(np.exp(-2 * abs(x))) - np.log(2)
        curvature = np.array([[1 / np.cosh(x) ** 2]])
        return Local(state, value, State(np.array([np.tanh(x)]), NOTHING), curvature, (), NOTHING)

    return at


def begin(x: float) -> State:
    return State(np.array([x]), NOTHING)


def test_steps_that_overshoot_are_halved_until_the_minimum_is_found():
    visits: list[float] = []
    at = log_cosh(visits)
    found = minimise(at, at(begin(3.0)), 1.0, "log cosh")
    assert abs(found.state.link[0]) < 1e-12
    # From 3 a full step would end at −98 (the limit is 10): it was halved.
    assert visits[1] == pytest.approx(-7.0)
    assert abs(visits[2]) < 3


def test_a_step_with_a_small_predicted_gain_is_the_last():
    visits: list[float] = []
    at = log_cosh(visits)
    found = minimise(at, at(begin(0.1)), 1.0, "log cosh", last_gain=0.1)
    assert visits == [0.1]
    assert found.near.state.link[0] == 0.1
    assert abs(found.state.link[0]) < 1e-3


def arrow(size: int, seed: int = 0) -> Local:
    """A quadratic function whose Hessian is an arrow."""
    rng = np.random.default_rng(seed)
    border = rng.normal(size=(2, size))
    diagonal = 1.0 + rng.random(size)
    block = border / diagonal @ border.T + np.array([[2.0, 0.3], [0.3, 1.0]])
    gradient = State(rng.normal(size=2), rng.normal(size=size))
    return Local(State(np.zeros(2), np.zeros(size)), 0.0, gradient, block, tuple(border), diagonal)


def test_the_step_solves_the_full_system():
    here = arrow(7)
    whole = np.block([[here.block, np.array(here.border)], [np.array(here.border).T, np.diag(here.diagonal)]])
    gradient = np.concatenate([here.gradient.link, here.gradient.offset])
    expected = -np.linalg.solve(whole, gradient)
    step, promise = here.step()
    np.testing.assert_allclose(np.concatenate([step.link, step.offset]), expected, rtol=1e-9)
    assert promise == pytest.approx(-0.5 * gradient @ expected)


def test_only_a_direction_without_curvature_is_limited():
    gradient = State(np.array([1e-9, -0.5]), NOTHING)
    flat = Local(begin(0.0), 0.0, gradient, np.diag([1e-14, 1.0]), (), NOTHING)
    step, _ = flat.step(limit=10.0)
    assert step.link == pytest.approx([-10.0, 0.5])


def test_steps_that_never_converge_give_a_typed_error():
    falling = iter(range(10_000, 0, -1))
    visited = []

    def slope_without_end(state: State) -> Local:
        visited.append(state)
        gradient = State(np.array([-1.0]), NOTHING)
        return Local(begin(0.0), float(next(falling)), gradient, np.eye(1), (), NOTHING)

    with pytest.raises(NotConvergedError, match="the link did not converge within 100 damped Newton steps"):
        minimise(slope_without_end, slope_without_end(begin(0.0)), 1.0, "the link")
    assert len(visited) == MAX_STEPS + 1


def test_a_function_value_of_nan_gives_the_same_error():
    def nowhere(state: State) -> Local:
        return Local(state, np.nan, State(np.array([np.nan]), NOTHING), np.array([[np.nan]]), (), NOTHING)

    with pytest.raises(NotConvergedError, match="the link did not converge"):
        minimise(nowhere, nowhere(begin(0.0)), 1.0, "the link")


def falling(visits: list[float]):
    """log(1 + exp(−x)), the loss of separable rows, which has no minimum."""

    def at(state: State) -> Local:
        x = float(state.link[0])
        visits.append(x)
        p = 1 / (1 + np.exp(x))
        return Local(
            state,
            np.log1p(np.exp(-x)),
            State(np.array([-p]), NOTHING),
            np.array([[p * (1 - p)]]),
            (),
            NOTHING,
        )

    return at


def flat(rise: float):
    """A flat log cosh x whose value has an error that grows with every evaluation."""

    def of(visits: list[float]):
        plain = log_cosh(visits)

        def at(state: State) -> Local:
            here = plain(state)
            gradient = State(1e-8 * here.gradient.link, NOTHING)
            value = 1e-8 * here.value + rise * len(visits)
            return replace(here, value=value, gradient=gradient, block=1e-8 * here.block)

        return at

    return of


FUNCTIONS = {"well": log_cosh, "separable": falling, "rounding": flat(5e-14), "noise": flat(2e-12)}


@pytest.mark.parametrize("weight", [1e-12, 1e12])
@pytest.mark.parametrize("last_gain", [0.0, 1e-4])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_tolerances_scale_with_the_weight(function, last_gain, weight):
    """Rescaling all weights gives the same steps and the same result."""

    def run(by: float):
        visits: list[float] = []
        at = FUNCTIONS[function](visits)

        def weighed(state: State) -> Local:
            here = at(state)
            gradient = State(here.gradient.link * by, NOTHING)
            return replace(here, value=here.value * by, gradient=gradient, block=here.block * by)

        found = minimise(weighed, weighed(begin(0.5)), by, "it", last_gain=last_gain)
        return visits, found.separated

    (visits, separated), (expected, stated) = run(weight), run(1.0)
    assert separated == stated
    assert visits == pytest.approx(expected, rel=1e-6, abs=1e-9)
