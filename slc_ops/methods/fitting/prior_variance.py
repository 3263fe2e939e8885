"""The variance of the item offsets and its lasting share, the two numbers that ``slc_eb`` estimates.

**Model.** In the calibration window item i is off by cᵢ = πᵢ + εᵢ: a part πᵢ ~ N(0, s·v) that persists in the
next window and a part εᵢ ~ N(0, (1−s)·v) that does not. v is the *variance* of the offsets in this window, s
the *lasting share*. The window only shows cᵢ, but E[πᵢ | data] = s·E[cᵢ | data].

**Estimation.** The window's own marginal likelihood determines v, but not s. So the choice imitates
deployment: each user's last fifth (by weight, in order of event time) is held out, and link and offsets are
fitted to the rest for v = 1, ½, ¼, …, 2⁻¹⁰ and for v = 0, which is Platt scaling.

* v minimises the loss on the held-out rows plus half the negative log marginal likelihood of the rest (its
  Laplace approximation, f + ½·Σ log(1 + v·Wᵢ)). On many rows the two agree or the future decides; on few rows
  the past reduces the influence of chance.
* s is 1, unless some v with s = ½ is better on the held-out rows by half a standard error (of the users'
  sums). More values of s, or v beyond the paper's 1, followed chance more often than they helped.

Users with single rows cannot be split: if less than a tenth of the weight is held out that way, the last
fifth of time is. Decision 0013 has the alternatives and their figures.

**Rows of a user may share their outcome** (a game, a session, a trip). Then the first rows of a user predict
the last, and items seem to. So the choice is repeated with whole users held out (those with the highest
hashes of their ids, a fifth of the weight), for v and the smaller variances with the same s, v = 0 included;
the best of them replaces v if it predicts these users better by half a standard error. Whole users alone
would not show which part persists. Decision 0106.

**A new backbone** may start from the item offsets of an earlier one. With ρ = 1 or ½ the offsets' prior mean
is ρ times the earlier offsets instead of 0, and v is chosen as before; the fit then shrinks towards that
mean. The smaller loss on the held-out rows of the *new* backbone chooses ρ, and only if it is below that of
mean 0 by two standard errors (of the users' sums); otherwise the earlier offsets have no influence. Decision
0080.

Rows of equal time stay together, so neither the order of the rows nor writing a row twice instead of giving
it weight 2 changes the result.

**Without a forward hold-out** (no event time, a single time, one class left on a side) the marginal
likelihood decides alone, and s is 1; whole users are still held out.

Both numbers are chosen on a bounded number of rows (:mod:`slc_ops.methods.fitting.prior_sample`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from slc_ops.methods.fitting.calibration import Calibration, ItemOffsets
from slc_ops.methods.fitting.logistic import Evaluated, Logistic
from slc_ops.methods.fitting.prior_sample import prior_rows
from slc_ops.numerics.kernels import Floats
from slc_ops.numerics.newton import State
from slc_ops.numerics.time_bins import position
from slc_ops.rows.rows import Log, Rows

VARIANCES = tuple(2.0**-k for k in range(11))
HELD_OUT = 0.2
LEAST_HELD_OUT = 0.1
ROWS_OF_USER = 2  # average rows per user from which users count as returning
HALF_LASTS = 0.5  # the lasting share beside 1
MANY_ROWS = 1 << 20  # rows of a log whose rows for choices are not kept: more than 50 MB
MARGIN = 0.5  # standard errors by which it must win, and a smaller variance on whole users
EARLIER = (1.0, 0.5)  # shares of an earlier backbone's offsets that are tried as prior mean
EARLIER_MARGIN = 2.0  # standard errors by which one of them must win
PAST = 0.5  # weight of the past's marginal likelihood beside the loss in the future
PATIENCE = 2  # halvings of the variance without a gain that end the search
_PATH_GAIN = 1e-5  # along the variances, a step with a smaller expected gain per unit of weight is the last


@dataclass(frozen=True)
class Prior:
    """v and s, and their source; variance 0 means that no item differs from the link."""

    variance: float
    lasting: float
    source: str
    earlier: float = 0.0
    """ρ: the share of an earlier backbone's offsets that is the prior mean."""
    gain: float = 0.0
    """Its gain in NLL per held-out row."""


@dataclass(frozen=True)
class Split:
    """Rows in two parts: the first predicts the second."""

    past: Rows
    ahead: Rows

    @classmethod
    def of(cls, rows: Rows, held: NDArray[np.bool_] | None) -> "Split | None":
        """Split rows; None without held-out rows, and if a part has one class."""
        if held is None:
            return None
        past, ahead = (rows.chosen(side) for side in (~held, held))
        return cls(past, ahead) if _two_classes(past) and _two_classes(ahead) else None

    def error_of(self, gain: Floats) -> float:
        """Return the standard error of the sum of a gain per held-out row.

        The rows of a user are one observation; without users, those of an item are.
        """
        unit = self.ahead.codes if self.ahead.user is None else self.ahead.user
        sums = np.bincount(unit, gain)[np.bincount(unit) > 0]
        return float(np.sqrt(len(sums) * np.var(sums)))


@dataclass(frozen=True)
class ChoiceRows:
    """The rows for a choice, and a mask of the later ones."""

    rows: Rows
    held: NDArray[np.bool_] | None

    @classmethod
    def of(cls, log: Log, *, groups: bool = False) -> "ChoiceRows | None":
        """Read the rows of a log, with groups on request; None if no sample is bounded."""
        rows = prior_rows(log, groups=groups)
        return None if rows is None or not _two_classes(rows) else cls(rows, held_out(rows))


def rows_of_choice(calibration: Calibration, *, groups: bool = False) -> ChoiceRows | None:
    """Return the rows for choices; those of a short log, or for several methods, are read once."""
    log, groups = calibration.log, groups or calibration.keep_rows
    if not calibration.keep_rows and log.n_rows > MANY_ROWS:
        return ChoiceRows.of(log, groups=groups)
    return calibration.once(("rows of the choice", groups), lambda: ChoiceRows.of(log, groups=groups))


def choose_prior(
    known: ChoiceRows | None, model: Logistic, start: State, earlier: Floats | None = None
) -> tuple[Prior, State]:
    """Return the prior of a log from some of its rows, and a state near its minimum.

    Without such rows the ``model`` of all rows decides. ``earlier`` contains the offsets of an earlier
    backbone by item code. If the prior has a mean, the state is that of a model with this mean.
    """
    if known is None:
        return _by_evidence(model, start)
    if (split := Split.of(known.rows, known.held)) is None:
        prior, near = _by_evidence(model.on(known.rows), start)
    else:
        trial = _Trial.of(model, split)
        prior, near, reached = _by_hold_out(trial, start)
        if earlier is not None and earlier.any():
            prior, near = _from_earlier(trial, start, reached, earlier) or (prior, near)
    if prior.earlier or not prior.variance:
        return prior, near
    split = Split.of(known.rows, held_out_users(known.rows))
    return (prior, near) if split is None else _for_whole_users(_Trial.of(model, split), prior, near)


@dataclass(frozen=True)
class _Trial:
    """The model on the rows that predict, and on the rows that are predicted."""

    rest: Logistic
    future: Logistic
    split: Split

    @classmethod
    def of(cls, model: Logistic, split: Split) -> "_Trial":
        return cls(model.on(split.past), model.on(split.ahead), split)

    def gains(self, one: State, other: State, margin: float) -> bool:
        """Return True if the future is predicted better by ``one``, by more than chance."""
        gain = self.future.losses(self.split.ahead, other) - self.future.losses(self.split.ahead, one)
        whole = float(np.sum(gain))
        return whole > 0 and whole > margin * self.split.error_of(gain)


def held_out(rows: Rows) -> NDArray[np.bool_] | None:
    """Return a mask of the rows that represent the future; None if time does not separate any."""
    if rows.time is None:
        return None
    weight = None if rows.weight is None else rows.weight.astype(np.float64, copy=False)
    for groups in (rows.user, np.zeros(len(rows), dtype=np.int32)):
        if groups is not None:
            held = position(groups, rows.time, weight) >= 1.0 - HELD_OUT
            if _enough(held, weight):
                return held
    return None


def held_out_users(rows: Rows) -> NDArray[np.bool_] | None:
    """Return a mask of the rows of a fifth of the users; None if unknown, not returning, or too uneven.

    Users' codes are in the order of their ids' hashes, so the last ones are a random sample.
    """
    if rows.user is None or len(rows) < ROWS_OF_USER * (int(rows.user.max()) + 1):
        return None
    weight = None if rows.weight is None else rows.weight.astype(np.float64, copy=False)
    of_user = np.bincount(rows.user, weight)
    upto = np.cumsum(of_user)
    held = (upto - of_user >= (1.0 - HELD_OUT) * upto[-1])[rows.user]
    return held if _enough(held, weight) else None


def _enough(held: NDArray[np.bool_], weight: Floats | None) -> bool:
    """Return True if the held-out rows have enough weight."""
    future = np.count_nonzero(held) if weight is None else weight[held].sum()
    everything = len(held) if weight is None else weight.sum()
    return float(future) >= LEAST_HELD_OUT * float(everything)


def _two_classes(rows: Rows) -> bool:
    """Return True if both classes have weight."""
    label = rows.label if rows.weight is None else rows.label[rows.weight > 0]
    return bool(label.any() and not label.all())


def _path(
    model: Logistic, start: State, most: float = VARIANCES[0]
) -> Iterator[tuple[float, State, Evaluated]]:
    """Yield the minimum for each variance, from the largest down; each starts from the previous one."""
    here = model.visit(start)
    for variance in (each for each in VARIANCES if each <= most):
        found = model.minimise(here, variance, last_gain=_PATH_GAIN)
        here = found.near
        yield variance, found.state, here


@dataclass(frozen=True)
class _Candidate:
    criterion: float
    variance: float
    state: State
    near: State


def _by_hold_out(trial: _Trial, start: State) -> tuple[Prior, State, State]:
    """Return the prior, a state near the minimum, and the state that predicted the held-out rows."""
    rest, future = trial.rest, trial.future
    whole: list[_Candidate] = []
    half: list[_Candidate] = []
    for variance, state, near in _path(rest, start):
        past = PAST * _evidence(near, variance)
        whole.append(_Candidate(future.loss(state) + past, variance, state, state))
        offset = HALF_LASTS * state.offset
        halved = near.relinked(offset)
        half.append(_Candidate(future.loss(halved), variance, halved, state))
        if _stale(whole) and _stale(half):
            break
    else:
        # Smaller was better to the end: then 0 may be best.
        platt = _refined(rest, near.relinked(np.zeros_like(offset)))
        ahead = future.loss(platt)
        whole.append(_Candidate(ahead + PAST * rest.loss(platt), 0.0, platt, platt))
        half.append(_Candidate(ahead, 0.0, platt, platt))
    best, other = (min(reversed(found), key=lambda each: each.criterion) for found in (whole, half))
    # Halved offsets are far from the state of their link: refine it once more.
    halved = _refined(rest, other.state)
    if trial.gains(halved, best.state, MARGIN):
        return Prior(other.variance, HALF_LASTS, "hold-out"), other.near, halved
    return Prior(best.variance, 1.0, "hold-out"), best.near, best.state


def _for_whole_users(trial: _Trial, prior: Prior, start: State) -> tuple[Prior, State]:
    """Return the prior, or a smaller variance if that predicts unseen users better."""
    rest, future = trial.rest, trial.future
    found: list[_Candidate] = []
    for variance, state, near in _path(rest, start, prior.variance):
        shown = state if prior.lasting == 1 else near.relinked(prior.lasting * state.offset)
        found.append(_Candidate(future.loss(shown), variance, shown, state))
        if _stale(found):
            break
    platt = _refined(rest, near.relinked(np.zeros_like(state.offset)))
    found.append(_Candidate(future.loss(platt), 0.0, platt, platt))
    best = min(reversed(found), key=lambda each: each.criterion)
    if not trial.gains(best.state, found[0].state, MARGIN):
        return prior, start
    return replace(prior, variance=best.variance, lasting=prior.lasting if best.variance else 1.0), best.near


def _from_earlier(trial: _Trial, start: State, without: State, earlier: Floats) -> tuple[Prior, State] | None:
    """Return the best prior with earlier offsets as mean; None unless clearly better than ``without``."""
    rest, future = trial.rest, trial.future
    best: tuple[float, float, _Candidate] | None = None
    for share in EARLIER:
        mean = share * earlier
        terms = replace(rest.terms, known=ItemOffsets(mean))
        past, ahead = (replace(model, terms=terms) for model in (rest, future))
        found: list[_Candidate] = []
        for variance, state, near in _path(past, start):
            criterion = ahead.loss(state) + PAST * _evidence(near, variance)
            whole = State(state.link, state.offset + mean)
            found.append(_Candidate(criterion, variance, whole, state))
            if _stale(found):
                break
        chosen = min(reversed(found), key=lambda each: each.criterion)
        loss = future.loss(chosen.state)
        if best is None or loss < best[0]:
            best = loss, share, chosen
    assert best is not None  # noqa: S101 - there are shares
    loss, share, chosen = best
    if not trial.gains(chosen.state, without, EARLIER_MARGIN):
        return None
    prior = Prior(chosen.variance, 1.0, "hold-out", share, (future.loss(without) - loss) / future.weight)
    return prior, chosen.near


def _refined(model: Logistic, state: State) -> State:
    """Return the same offsets with a better link: one Newton step of the link."""
    return model.visit(state).relinked(state.offset)


def _stale(found: list[_Candidate]) -> bool:
    losses = [each.criterion for each in found]
    return len(losses) - 1 - int(np.argmin(losses)) >= PATIENCE


def _evidence(near: Evaluated, variance: float) -> float:
    """Return the negative log marginal likelihood, by Laplace's approximation around the minimum."""
    return near.value + 0.5 * float(np.sum(np.log1p(variance * near.sums.fisher)))


def _by_evidence(model: Logistic, start: State) -> tuple[Prior, State]:
    found = [(model.loss(start), 0.0, start)]
    found += [(_evidence(near, variance), variance, state) for variance, state, near in _path(model, start)]
    _, variance, state = min(found, key=lambda each: each[0])
    return Prior(variance, 1.0, "marginal likelihood"), state
