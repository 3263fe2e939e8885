"""``platt_eb``: Platt's line with a prior around the frozen model, whose width is estimated.

With x the standardised logit the frozen model is η₀ = mean + spread·x. The line departs from it by (b, c),

    p = σ(η₀ + b + c·x),    (b, c) ~ N(0, t²),

and t is averaged over a grid: the best (b, c) of each t has the marginal likelihood of t as its weight, in
Laplace's approximation,

    log p(labels | t) ≈ −f − k·log t − ½·log det(∇²f),    f = −Σ log-likelihood + (b² + c²)/(2t²),

with k coefficients; the log-likelihood is divided by the design effect of users whose rows resemble each
other (:mod:`slc_ops.methods.fitting.design_effect`). A small window has little evidence against the frozen
model, so t is small and the line stays near it; a model that is far off gets a large t at once, and the line
is Platt's. On many rows it is Platt's, too, at the cost of hardly a pass more: the search starts at Platt's
line, and a short step is not evaluated.

A refresh fits it on windows. Then the level may differ from window to window, and the rows of one window say
little about the next: the result is the mean of the line above, fitted on the link's windows, and the moving
line over the long memory (:mod:`slc_ops.methods.fitting.moving_line`).

>>> import pyarrow as pa
>>> from slc_ops.rows.interactions import InteractionLog
>>> rng = np.random.default_rng(3)
>>> logit = rng.normal(0, 1, 200)
>>> label = (rng.random(200) < 1 / (1 + np.exp(-logit))).astype(int)
>>> log = InteractionLog.from_table(pa.table({"item_id": np.zeros(200, int), "label": label, "logit": logit}))
>>> from slc_ops.methods import platt
>>> round(platt.fit(Calibration(log)).link.a, 2), round(fit(Calibration(log)).link.a, 2)
(1.1, 1.01)
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.design_effect import design_effect
from slc_ops.methods.fitting.link import FittedLink, line_of, link_terms, plain_link
from slc_ops.methods.fitting.logistic import NO_OFFSETS, Evaluated, Logistic
from slc_ops.methods.fitting.moving_line import followed
from slc_ops.methods.fitting.results import fitted
from slc_ops.numerics.kernels import Floats, dot
from slc_ops.numerics.newton import State, minimise
from slc_ops.parameters.parameter_set import ParameterSet

WIDTHS = np.geomspace(3.0, 0.01, 10)
NEGLIGIBLE = 30.0  # in log-likelihood: narrower priors than one this far behind have no weight


def fit(calibration: Calibration, link: Calibration | None = None) -> ParameterSet:
    """Estimate (a, b₀); ``link`` contains the newest of the calibration's windows, if those are more."""
    return fitted(link or calibration, "platt_eb", careful_line(calibration, link))


def careful_line(calibration: Calibration, link: Calibration | None = None) -> FittedLink:
    """Return the line; computed once for all methods of a log."""
    newest = link or calibration
    return calibration.once(
        "careful_line",
        lambda: followed(
            line_of(newest, averaged_link(newest, design_effect(calibration))), newest, calibration
        ),
    )


def averaged_link(calibration: Calibration, rows_of_one: float = 1.0) -> Floats:
    """Return the standardised coefficients, averaged over the widths of the prior.

    ``rows_of_one`` is the design effect.
    """
    plain = plain_link(calibration)
    terms = link_terms(calibration)
    model = Logistic(calibration.log, calibration.total_weight, calibration.options.workers, terms)
    mean, spread = calibration.logit_moments
    frozen = np.array([spread, mean])[-len(plain.state.link) :]
    # Labels that a line separates have no best line: start with the frozen model's.
    here = model.visit(State(frozen, NO_OFFSETS)) if plain.separated else plain.near
    links, evidence = [], []
    for width in WIDTHS:
        towards = partial(_towards, frozen, float(width), rows_of_one)
        weight = model.weight / rows_of_one
        found = minimise(partial(_visit, model, towards), towards(here), weight, "the link")
        here = found.near.under(np.inf)
        links.append(found.state.link)
        evidence.append(_evidence(found.near, float(width)))
        if max(evidence) - evidence[-1] > NEGLIGIBLE:
            break
    share = np.exp(np.array(evidence) - max(evidence))
    return np.asarray(share @ np.array(links) / share.sum())


def _visit(model: Logistic, towards: Callable[[Evaluated], Evaluated], state: State) -> Evaluated:
    return towards(model.visit(state))


def _towards(frozen: Floats, width: float, rows_of_one: float, here: Evaluated) -> Evaluated:
    """Return f at a state, from the likelihood there."""
    gap, precision = here.state.link - frozen, width**-2
    return replace(
        here,
        value=here.value / rows_of_one + 0.5 * precision * dot(gap, gap),
        gradient=State(here.gradient.link / rows_of_one + precision * gap, here.gradient.offset),
        block=here.block / rows_of_one + precision * np.eye(len(gap)),
    )


def _evidence(near: Evaluated, width: float) -> float:
    """Return log p(labels | t), by Laplace's approximation."""
    _, curvature = np.linalg.slogdet(near.block)
    return float(-near.value - len(near.block) * np.log(width) - 0.5 * curvature)
