"""Newton's step for a handful of coefficients, with Chebyshev's correction.

A pass over the rows is expensive and the coefficients are few, so each pass also brings the third derivative
T, and Newton's step d = −H⁻¹g gets Chebyshev's correction c = −½·H⁻¹T[d, d]. What the two leave behind is
about |c|²/|d|: where that is below 1e-8 (in standardised units), the step is the last one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement, permutations

import numpy as np

from slc_ops.numerics.kernels import Floats, LinkSums
from slc_ops.numerics.newton import descend

LAST_STEP = 1e-5
NEGLIGIBLE = 1e-8
ROUNDING = 1e-13  # of the likelihood, as a share of the total weight
FLAT = 1e-10  # curvature per unit of weight in a direction that leads nowhere
SATURATED = 100.0  # a first step of this length (in standardised units) comes from a vanishing curvature
PERFECT = 1e-8  # a loss below this share of the total weight means that every label is predicted


@dataclass(frozen=True)
class Minimum:
    """Where the iteration ended; ``separated`` when the likelihood has no finite maximum."""

    beta: Floats
    separated: bool = False


@dataclass(frozen=True)
class LinkPoint:
    """Coefficients and the sums taken there."""

    beta: Floats
    sums: LinkSums


@dataclass(frozen=True)
class LinkStep:
    """Newton's step, and its correction where that is small enough to be trusted (otherwise 0)."""

    newton: Floats
    correction: Floats
    last: bool

    @property
    def length(self) -> float:
        """The longest component of Newton's step."""
        return _length(self.newton)


@dataclass(frozen=True)
class LinkProblem:
    """The negative log-likelihood of some rows as a function of β."""

    evaluate: Callable[[Floats], LinkSums]
    total_weight: float
    last_step: float

    def at(self, beta: Floats) -> LinkPoint:
        """One pass over the rows."""
        return LinkPoint(beta, self.evaluate(beta))

    def step(self, here: LinkPoint) -> LinkStep:
        """Newton's step and its correction."""
        newton = _newton_step(here.sums, max(10.0, 2.0 * _length(here.beta)))
        correction = _correction(here.sums, newton)
        length, bend = _length(newton), _length(correction)
        last = length < self.last_step or (bend < 0.1 * length < 0.01 and bend**2 < NEGLIGIBLE * length)
        trusted = last or bend < 0.5 * length < 0.5
        return LinkStep(newton, correction if trusted else np.zeros_like(correction), last)

    def visit(self, here: LinkPoint, step: LinkStep, share: float) -> LinkPoint:
        """One pass at a share of the step."""
        return self.at(here.beta + share * (step.newton + step.correction))

    def accepts(self, here: LinkPoint, there: LinkPoint) -> bool:
        """The likelihood must not fall."""
        return there.sums.nll <= here.sums.nll + ROUNDING * self.total_weight

    def gains_nothing(self, here: LinkPoint, there: LinkPoint, step: LinkStep) -> bool:
        """A gain that rounding or a flat direction explains is none."""
        return here.sums.nll - there.sums.nll <= max(ROUNDING, FLAT * step.length**2) * self.total_weight


def minimise(
    evaluate: Callable[[Floats], LinkSums],
    start: Floats,
    total_weight: float,
    *,
    safe_start: tuple[Floats, float] | None = None,
    last_step: float = LAST_STEP,
) -> Minimum:
    """Minimise from ``start``; raises :class:`NotConvergedError` when the steps run out.

    ``safe_start`` is a point of known value and good curvature (the mean label): where ``start`` is worse or
    has no curvature, as with saturated logits, the iteration begins there instead.
    """
    problem = LinkProblem(evaluate, total_weight, last_step)
    begin = problem.at(start)
    if safe_start is not None and (
        begin.sums.nll > safe_start[1] or _length(_newton_step(begin.sums, np.inf)) > SATURATED
    ):
        begin = problem.at(safe_start[0])
    found = descend(problem, begin)
    here, step = found.point, found.step
    if found.end == "last step":
        return Minimum(
            here.beta + step.newton + step.correction, separated=here.sums.nll < PERFECT * total_weight
        )
    if found.end == "no gain":
        # Long steps that gain nothing: the coefficients run to infinity, the likelihood to its limit.
        return Minimum(here.beta, separated=step.length > 1e-2)
    raise found.not_converged("the link")


def _length(step: Floats) -> float:
    return float(np.max(np.abs(step)))


def _newton_step(here: LinkSums, limit: float) -> Floats:
    """−H⁻¹g, each of its components along the eigenvectors of H cut at ``limit``.

    Where almost all rows are saturated, the curvature in some direction vanishes and says nothing about the
    far end of a long step; the other directions must not suffer from it.
    """
    curvature, axes = np.linalg.eigh(here.hessian)
    # Below rounding an eigenvalue is noise; its direction is as good as flat.
    curvature = np.maximum(curvature, 1e-15 * curvature[-1] + 1e-300)
    along = np.clip(-(axes.T @ here.gradient) / curvature, -limit, limit)
    return np.asarray(axes @ along, dtype=np.float64)


def _correction(here: LinkSums, step: Floats) -> Floats:
    """−½·H⁻¹T[step, step]."""
    size = len(step)
    tensor = np.empty((size, size, size))
    for value, indices in zip(here.third, combinations_with_replacement(range(size), 3), strict=True):
        for index in permutations(indices):
            tensor[index] = value
    bent = LinkSums(here.nll, 0.5 * (tensor @ step @ step), here.hessian, here.third)
    return _newton_step(bent, np.inf)
