"""``slc_eb``: empirical-Bayes SLC; link, offsets and their prior are all estimated from the data.

The paper's ``slc`` fixes σ_b² = 1 and (a, b₀) = (1, 0) while it estimates the offsets. If the backbone is
miscalibrated as a whole, the offsets then absorb part of the link; if items hardly differ, or differ only for
a season, they absorb noise. Here

1. the offset variance v and the lasting share s are chosen on held-out rows that imitate deployment
   (:mod:`slc_ops.methods.fitting.prior_variance` has the procedure and its reasons);
2. link and offsets minimise the penalised likelihood together (:mod:`slc_ops.methods.fitting.logistic`),

       −Σ log-likelihood of σ(a·η₀ + b₀ + cᵢ) + Σ cᵢ²/(2v),

   which is convex: Platt first, then offsets and link in turn until convergence, has the same result;
3. the result is the lasting part πᵢ = s·cᵢ, with its own link: p̂ = σ(a·η₀ + b₀ + πᵢ).

A new backbone may start from the offsets of the previous one (``FitOptions.earlier``): then cᵢ ~ N(ρ·oᵢ, v)
with ρ = 1 or ½ if that predicts held-out rows of the new backbone clearly better; otherwise ρ = 0, and the
earlier offsets have no influence.

Offsets last longer than the level of a deployment. If the newest rows are given separately (``link``),
variance, share and offsets come from the long log and (a, b₀) from the short one, with the offsets fixed.
Items that are not in the long log get Platt's line of the rows of the link: the joint line is the line of an
item with offset 0, Platt's is the average over items, and nothing else is known about a new item. In a
refresh both lines allow for levels that differ between windows, as that of ``platt_eb`` does
(:mod:`slc_ops.methods.fitting.moving_line`).

With Wᵢ = Σ p(1 − p) at the solution, the posterior variance of πᵢ is s²/(Wᵢ + 1/v) + s(1 − s)·v, its prior
variance s·v (``prior_var`` of the parameter set), and the shrinkage λᵢ = 1 − posterior/prior, which is
s·Wᵢ/(Wᵢ + 1/v). Variance 0 is a possible result and means Platt scaling: every offset is 0.

>>> import pyarrow as pa
>>> from slc_ops.methods.fitting.calibration import Calibration
>>> from slc_ops.rows.interactions import InteractionLog
>>> rng = np.random.default_rng(0)
>>> item, user = rng.integers(0, 40, 4000), rng.integers(0, 50, 4000)
>>> truth = rng.normal(0, 1, 40)[item]
>>> log = InteractionLog.from_table(
...     pa.table({"item_id": item, "user_id": user, "event_time": np.arange(4000), "logit": np.zeros(4000),
...               "label": (rng.random(4000) < 1 / (1 + np.exp(-truth))).astype(int)}))
>>> fit(Calibration(log)).prior_var
0.5
"""

from dataclasses import replace

import numpy as np

from slc_ops.base.ids import IdIndex
from slc_ops.methods.fitting.calibration import Calibration, ItemOffsets
from slc_ops.methods.fitting.link import FittedLink, fit_link, line_of
from slc_ops.methods.fitting.logistic import Logistic, Terms
from slc_ops.methods.fitting.moving_line import followed
from slc_ops.methods.fitting.options import EarlierOffsets
from slc_ops.methods.fitting.prior_sample import is_large
from slc_ops.methods.fitting.prior_variance import Prior, choose_prior, rows_of_choice
from slc_ops.methods.fitting.results import fitted, item_effect, lasting_part
from slc_ops.methods.platt_eb import careful_line
from slc_ops.numerics.curves import Affine
from slc_ops.numerics.kernels import Floats
from slc_ops.numerics.newton import State
from slc_ops.parameters.parameter_set import ParameterSet, PriorMean, Provenance


def fit(calibration: Calibration, link: Calibration | None = None) -> ParameterSet:
    """Estimate prior, link and offsets together, and the link of the lasting part.

    ``link`` contains the rows of the link, if they differ: the newest of the calibration's.
    """
    prior, near = chosen_prior(calibration)
    newest, model = link or calibration, joint_model(calibration)
    mean = prior_mean_of(calibration, prior)
    if mean is not None:
        model = replace(model, terms=replace(model.terms, known=ItemOffsets(mean)))
    platt = line_of_new_items(calibration, link)
    if prior.variance == 0:
        found_link, offset, inverse = platt, *np.zeros((2, calibration.n_items))
    else:
        here = model.visit(near)
        if is_large(calibration.log):  # the sample gives the link, but not every item
            here = model.warm_started(here, calibration.item_sums, prior.variance)
        found = model.minimise(here, prior.variance)
        offset, inverse = prior.lasting * found.state.offset, 1.0 / found.near.diagonal
        if mean is not None:
            offset = offset + mean
        settled = link is None and prior.lasting == 1 and not calibration.constant_logits
        found_link = (
            line_of(calibration, found.state.link, separated=found.separated)
            if settled
            else fit_link(newest, ItemOffsets(_by_code(offset, calibration, newest)))
        )
        found_link = followed(found_link, newest, calibration, ItemOffsets(offset))
    return fitted(
        calibration,
        "slc_eb",
        found_link,
        item_effect(calibration, offset, *lasting_part(inverse, prior.variance, prior.lasting)),
        cold=Affine(platt.a, platt.b0) if prior.variance > 0 else None,
        provenance=Provenance(prior_mean=mean_in_words(calibration.options.earlier, prior)),
    )


def line_of_new_items(calibration: Calibration, link: Calibration | None = None) -> FittedLink:
    """Return Platt's line of the rows of the link; with windows, that of ``platt_eb``."""
    return careful_line(calibration, link) if calibration.starts else fit_link(link or calibration)


def chosen_prior(calibration: Calibration) -> tuple[Prior, State]:
    """Return the items' prior and a state near the minimum; computed once for all methods of a log."""
    calibration.require_two_classes()
    known = calibration.options.earlier
    earlier = None if known is None else known.of(calibration.log.items)
    rate = float(calibration.item_sums.y.sum()) / calibration.total_weight
    start = State(np.array([0.0, np.log(rate / (1.0 - rate))]), np.zeros(calibration.n_items))
    return calibration.once(
        ("items' prior", id(known)),
        lambda: choose_prior(rows_of_choice(calibration), joint_model(calibration), start, earlier),
    )


def prior_mean_of(calibration: Calibration, prior: Prior) -> Floats | None:
    """Return the items' prior mean; None if it is 0."""
    known = calibration.options.earlier
    return None if known is None or not prior.earlier else prior.earlier * known.of(calibration.log.items)


def mean_in_words(known: EarlierOffsets | None, prior: Prior) -> PriorMean | None:
    """Return the origin of the offsets' prior mean; None if it is 0."""
    if known is None or not prior.earlier:
        return None
    return PriorMean(known.backbone_version, prior.earlier, prior.gain)


def _by_code(offset: Floats, calibration: Calibration, newest: Calibration) -> Floats:
    """Return the offsets in the order of another log's items; 0 for items that the long log does not have."""
    if newest is calibration:
        return offset
    found: Floats = np.append(offset, 0.0)[IdIndex(calibration.log.items).positions(newest.log.items)]
    return found


def joint_model(calibration: Calibration) -> Logistic:
    """Return the model with standardised logits; constant logits, as the link defines them, have spread 0."""
    terms = Terms((("logit", *calibration.logit_scale),), calibration.n_items)
    return Logistic(calibration.log, calibration.total_weight, calibration.options.workers, terms)
