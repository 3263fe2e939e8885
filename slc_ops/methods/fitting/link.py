"""The links: coefficients of p = σ(a·η₀ + c·t̃ + b₀ + δ) by maximum likelihood, δ fixed (Section 3.6).

The covariates are standardised for the iteration and the result is turned back, so that logits of any scale
behave the same. On long logs a few evenly spaced slices give the starting point, so that one pass over all
rows, or two, finish the work.

* All logits equal: a and b₀ cannot be told apart; a = 1 is kept and b₀ carries everything, which gives the
  same, right predictions as any other split.
* Labels perfectly separated: there is no finite maximum; the iteration stops where the likelihood has
  reached its limit, and the result carries a warning.
* A negative slope is what the data say: kept, with a warning.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slc_ops.base.errors import FitError
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.offsets import NoOffsets, Offsets
from slc_ops.numerics.kernels import Floats, LinkSums, link_sums, slices
from slc_ops.numerics.link_newton import Minimum, minimise
from slc_ops.rows.passes import add_up, evenly_spaced
from slc_ops.rows.rows import TIME, Rows

_BEGIN = 8  # one slice of the sample in eight gives the sample's own starting point


@dataclass(frozen=True)
class Design:
    """The covariates: (column, mean, spread) of each, standardised."""

    columns: tuple[tuple[str, float, float], ...]

    def of(self, rows: Rows) -> list[NDArray[Any]]:
        """The standardised columns."""
        return [_standard(getattr(rows, name), mean, spread) for name, mean, spread in self.columns]


@dataclass(frozen=True)
class FittedLink:
    """a, b₀ (and c of standardised time), and what has to be said about them."""

    a: float
    b0: float
    c: float = 0.0
    warnings: tuple[str, ...] = ()


def fit_link(calibration: Calibration, offsets: Offsets | None = None, *, time: bool = False) -> FittedLink:
    """Fit (a, b₀), with ``time`` also c; without offsets this is plain Platt scaling."""
    calibration.require_two_classes()
    offsets = offsets or NoOffsets()
    mean, spread = calibration.logit_moments
    if spread <= 1e-9 * max(1.0, abs(mean)):
        return _with_constant_logits(calibration, offsets, mean, time)
    middle, pace = calibration.time_moments if time else (0.0, 1.0)
    x, t = ("logit", mean, spread), ("time", middle, pace)
    design = Design((x, t) if time else (x,))
    identity, flat = [spread, mean], [0.0, _logit_of_mean(calibration)]
    if time:
        identity, flat = [spread, 0.0, mean], [0.0, 0.0, flat[1]]
    found = _maximum_likelihood(calibration, offsets, design, np.array(identity), np.array(flat), time)
    a = float(found.beta[0] / spread)
    b0 = float(found.beta[-1] - found.beta[0] * mean / spread)
    c = float(found.beta[1]) if time else 0.0
    return FittedLink(a, b0, c, link_warnings(a, found.separated))


def fit_slope(calibration: Calibration) -> tuple[float, tuple[str, ...]]:
    """The slope alone, p = σ(a·η₀): what temperature scaling needs."""
    calibration.require_two_classes()
    mean, spread = calibration.logit_moments
    scale = float(np.hypot(mean, spread))
    if scale == 0:
        return 1.0, ("all logits are 0: no temperature can change them",)
    design = Design((("logit", 0.0, scale),))
    start, flat = np.array([scale]), np.zeros(1)
    found = _maximum_likelihood(calibration, NoOffsets(), design, start, flat, intercept=False)
    return float(found.beta[0] / scale), link_warnings(0.0, found.separated)


def _with_constant_logits(calibration: Calibration, offsets: Offsets, mean: float, time: bool) -> FittedLink:
    middle, pace = calibration.time_moments if time else (0.0, 1.0)
    design = Design((("time", middle, pace),) if time else ())
    start, flat = np.array([0.0, mean]), np.array([0.0, _logit_of_mean(calibration)])
    found = _maximum_likelihood(calibration, offsets, design, start[1 - time :], flat[1 - time :], time)
    notes = ("all logits are equal: the slope is kept at 1", *link_warnings(1.0, found.separated))
    return FittedLink(1.0, float(found.beta[-1]) - mean, float(found.beta[0]) if time else 0.0, notes)


def _maximum_likelihood(
    calibration: Calibration,
    offsets: Offsets,
    design: Design,
    start: Floats,
    flat: Floats,
    time: bool = False,
    intercept: bool = True,
) -> Minimum:
    log, workers = calibration.log, calibration.options.workers
    columns = offsets.columns | TIME if time else offsets.columns
    kernel = partial(_span_sums, offsets, design, intercept)

    def over_all(beta: Floats) -> LinkSums:
        return calibration.add_up(partial(kernel, beta), columns=columns)

    total = calibration.total_weight
    share = float(calibration.item_sums.y.sum()) / total
    flat_loss = _entropy(share) if intercept else float(np.log(2.0))
    firsts, length = evenly_spaced(log.n_rows)
    if length < log.n_rows:
        sample = log.sample(firsts, length, columns)
        start = _start_from_sample(sample, kernel, start, flat, flat_loss, workers)
    return minimise(over_all, start, total, safe_start=(flat, flat_loss * total))


def _start_from_sample(
    sample: list[Rows],
    kernel: Callable[[Floats, Rows], LinkSums],
    start: Floats,
    flat: Floats,
    flat_loss: float,
    workers: int,
) -> Floats:
    """The link of evenly spaced slices, begun with a few of them: one step over all rows remains."""

    def over(part: list[Rows], beta: Floats) -> LinkSums:
        return add_up(lambda k, _: kernel(beta, part[k]), len(part), workers, 1)

    for part in (sample[::_BEGIN], sample):
        rows = sum(len(each) for each in part)
        flat_start = flat, flat_loss * rows
        try:
            found = minimise(partial(over, part), start, rows, safe_start=flat_start, last_step=1e-2)
        except FitError:
            return start
        if found.separated or not np.isfinite(found.beta).all():
            return start
        start = found.beta
    return start


def _span_sums(offsets: Offsets, design: Design, intercept: bool, beta: Floats, rows: Rows) -> LinkSums:
    beta = beta if intercept else np.append(beta, 0.0)
    parts = (_slice_sums(rows.chosen(part), offsets, design, beta) for part in slices(len(rows)))
    total = next(parts)
    for part in parts:
        total.add(part)
    if intercept:
        return total
    return LinkSums(total.nll, total.gradient[:-1], total.hessian[:-1, :-1], total.third[:1])


def _slice_sums(rows: Rows, offsets: Offsets, design: Design, beta: Floats) -> LinkSums:
    return link_sums(design.of(rows), rows.label, rows.weight, offsets.of(rows), beta)


def _logit_of_mean(calibration: Calibration) -> float:
    ones = float(calibration.item_sums.y.sum())
    return float(np.log(ones) - np.log(calibration.total_weight - ones))


def _entropy(share: float) -> float:
    return float(-share * np.log(share) - (1 - share) * np.log1p(-share))


def _standard(values: NDArray[Any] | None, mean: float, spread: float) -> Floats:
    assert values is not None  # noqa: S101 - the pass asked for times
    x: Floats = np.subtract(values, mean, dtype=np.float64)
    x *= 1.0 / spread
    return x


def link_warnings(a: float, separated: bool) -> tuple[str, ...]:
    """What a reader of the parameters should know."""
    found = []
    if separated:
        found.append("labels are perfectly separated: the slope has no finite maximum and was stopped")
    if a < 0:
        found.append(f"negative slope {a:.4g}: higher logits mean fewer positive labels here")
    return tuple(found)
