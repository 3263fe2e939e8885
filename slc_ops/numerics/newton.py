"""Damped Newton for a convex negative log-likelihood in a handful of coefficients.

An undamped step diverges on real, badly scaled logits, so a step is halved until the likelihood does not
fall. A pass over the rows is dear and the coefficients are few, so each pass also brings the third derivative
T, and Newton's step d = −H⁻¹g gets Chebyshev's correction c = −½·H⁻¹T[d, d]. What the two leave behind is
about |c|²/|d|: where that is below 1e-8 (in standardised units), the step is the last one, and its end needs
no further pass.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement, permutations

import numpy as np

from slc_ops.base.errors import NotConvergedError
from slc_ops.numerics.kernels import Floats, LinkSums

MAX_STEPS = 100
MAX_HALVINGS = 40
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
    beta, here = start, evaluate(start)
    if safe_start is not None and (
        here.nll > safe_start[1] or _length(_newton_step(here, np.inf)) > SATURATED
    ):
        beta, here = safe_start[0], evaluate(safe_start[0])
    for _ in range(MAX_STEPS):
        step = _newton_step(here, max(10.0, 2.0 * _length(beta)))
        length, correction = _length(step), _correction(here, step)
        bend = _length(correction)
        if length < last_step or (bend < 0.1 * length < 0.01 and bend**2 < NEGLIGIBLE * length):
            return Minimum(beta + step + correction, separated=here.nll < PERFECT * total_weight)
        if bend < 0.5 * length < 0.5:
            step = step + correction
        found = _damped(evaluate, beta, here, step, total_weight)
        if found is None:
            break
        beta, gain, here = found[0], here.nll - found[1].nll, found[1]
        if gain <= max(ROUNDING, FLAT * length**2) * total_weight:
            # Long steps that gain nothing: the coefficients run to infinity, the likelihood to its limit.
            return Minimum(beta, separated=length > 1e-2)
    raise NotConvergedError(
        f"the link did not converge within {MAX_STEPS} damped Newton steps (last step {length:.2g}); "
        "look for extreme logits or weights"
    )


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
    for value, places in zip(here.third, combinations_with_replacement(range(size), 3), strict=True):
        for place in permutations(places):
            tensor[place] = value
    bent = LinkSums(here.nll, 0.5 * (tensor @ step @ step), here.hessian, here.third)
    return _newton_step(bent, np.inf)


def _damped(
    evaluate: Callable[[Floats], LinkSums], beta: Floats, here: LinkSums, step: Floats, total_weight: float
) -> tuple[Floats, LinkSums] | None:
    slack = ROUNDING * total_weight
    for halvings in range(MAX_HALVINGS):
        there = evaluate(beta + step / 2**halvings)
        if there.nll <= here.nll + slack:
            return beta + step / 2**halvings, there
    return None
