"""The links: coefficients of p = σ(a·η₀ + c·t̃ + b₀ + δ) by maximum likelihood, δ fixed (Section 3.6).

The covariates are standardised for the iteration and the result is converted back, so that logits of any
scale behave the same. The iteration starts where all predictions are the mean label, which has enough
curvature for any logits; long logs start with a few evenly spaced slices, so that two passes over all rows
suffice.

* All logits equal: a and b₀ are not identified; a = 1 is kept and b₀ is fitted, which gives the same, correct
  predictions as any other split.
* Labels perfectly separated: there is no finite maximum; the iteration stops when the likelihood has reached
  its limit, and the result has a warning.
* A negative slope is kept, with a warning.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slc_ops.base.errors import FitError
from slc_ops.methods.fitting.calibration import Calibration, Offsets
from slc_ops.methods.fitting.logistic import NO_OFFSETS, Evaluated, Logistic, Terms
from slc_ops.numerics.kernels import Floats
from slc_ops.numerics.newton import Minimum, State
from slc_ops.rows.passes import evenly_spaced
from slc_ops.rows.rows import Rows, joined

_BEGIN = 8  # one slice of the sample in eight gives the sample's own starting point


@dataclass(frozen=True)
class FittedLink:
    """a, b₀ (and c of standardised time), with warnings."""

    a: float
    b0: float
    c: float = 0.0
    warnings: tuple[str, ...] = ()


def fit_link(calibration: Calibration, offsets: Offsets | None = None, *, time: bool = False) -> FittedLink:
    """Fit (a, b₀), with ``time`` also c; without offsets this is plain Platt scaling."""
    if offsets is None and not time:
        found = plain_link(calibration)
    else:
        calibration.require_two_classes()
        found = _maximum_likelihood(calibration, link_terms(calibration, offsets, time))
    return line_of(calibration, found.state.link, time=time, separated=found.separated)


def plain_link(calibration: Calibration) -> Minimum[Evaluated]:
    """Return Platt's line in standardised units, fitted once for all methods of a log."""
    calibration.require_two_classes()
    terms = link_terms(calibration)
    return calibration.once("plain_link", lambda: _maximum_likelihood(calibration, terms))


def link_terms(calibration: Calibration, offsets: Offsets | None = None, time: bool = False) -> Terms:
    """Return the standardised logit, unless all are equal, and with ``time`` the standardised time."""
    covariates = () if calibration.constant_logits else (("logit", *calibration.logit_moments),)
    if time:
        covariates = (*covariates, ("time", *calibration.time_moments))
    return Terms(covariates, known=offsets)


def line_of(
    calibration: Calibration, link: Floats, *, time: bool = False, separated: bool = False
) -> FittedLink:
    """Convert standardised coefficients to (a, b₀, c) in the logits' own units."""
    mean, spread = calibration.logit_moments
    c = float(link[-2]) if time else 0.0
    constant = calibration.constant_logits
    a = 1.0 if constant else float(link[0] / spread)
    equal = ("all logits are equal: the slope is kept at 1",) if constant else ()
    return FittedLink(a, float(link[-1]) - a * mean, c, equal + link_warnings(a, separated))


def fit_slope(calibration: Calibration) -> tuple[float, tuple[str, ...]]:
    """Fit the slope alone, p = σ(a·η₀), for temperature scaling."""
    calibration.require_two_classes()
    scale = float(np.hypot(*calibration.logit_moments))
    if scale == 0:
        return 1.0, ("all logits are 0: no temperature can change them",)
    terms = Terms((("logit", 0.0, scale),), intercept=False)
    found = _maximum_likelihood(calibration, terms)
    return float(found.state.link[0] / scale), link_warnings(0.0, found.separated)


def _maximum_likelihood(calibration: Calibration, terms: Terms) -> Minimum[Evaluated]:
    log, start = calibration.log, np.zeros(len(terms.covariates))
    if terms.intercept:  # predict the mean label everywhere
        ones, total = float(calibration.item_sums.y.sum()), calibration.total_weight
        start = np.append(start, np.log(ones) - np.log(total - ones))
    model = Logistic(log, calibration.total_weight, calibration.options.workers, terms)
    begin = State(start, NO_OFFSETS)
    firsts, length = evenly_spaced(log.n_rows)
    if length < log.n_rows:
        begin = _start_from_sample(model, log.sample(firsts, length, terms.columns), begin)
    return model.minimise(model.visit(begin))


def _start_from_sample(model: Logistic, sample: Sequence[Rows], start: State) -> State:
    """Return the link of evenly spaced slices, started with few of them: two passes over all rows remain."""
    for slices in (sample[::_BEGIN], sample):
        few = model.on(joined(slices))
        try:
            found = few.minimise(few.visit(start), last_step=1e-2)
        except FitError:
            return start
        if found.separated or not np.isfinite(found.state.link).all():
            return start
        start = found.state
    return start


def link_warnings(a: float, separated: bool) -> tuple[str, ...]:
    """Return the warnings about a link."""
    found = []
    if separated:
        found.append("labels are perfectly separated: the slope has no finite maximum and was stopped")
    if a < 0:
        found.append(f"negative slope {a:.4g}: higher logits mean fewer positive labels here")
    return tuple(found)
