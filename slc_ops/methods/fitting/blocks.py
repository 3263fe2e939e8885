"""The choice of the blocks of ``slc_mix`` beside the items' offsets, and of their priors, on held-out rows.

The choice imitates deployment like that of the items' variance
(:mod:`slc_ops.methods.fitting.prior_variance`): the blocks are fitted to the earlier part of the rows and
predict the later part. They are tried in the order group, user, slope, each beside those that have entered.

* The variance v of a block is the one of ``VARIANCES`` with the smallest loss on the held-out rows.
* The block enters if the held-out rows gain at least half a standard error (of the users' sums) and the
  marginal likelihood of the earlier rows rises by a factor of e, too: half a standard error alone accepts one
  block in five that is pure noise. A block that does not enter is absent.
* Its lasting share s is 1 if it enters so. Otherwise half of it (s = ½) may still enter.

Without a forward hold-out (no event time, or a single one) the marginal likelihood chooses v, and the block
enters if it rises by a factor of e². Then s is 1.

Halving whenever that looks better is worse by measurement: held-out rows of a user are the nearest ones to
its other rows, and preferred ½ on a pair of logs whose next rows preferred 1 (decision 0111).
"""

from dataclasses import dataclass, replace

import numpy as np

from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.logistic import SampledRows
from slc_ops.methods.fitting.mixed import ByUser, Cells, Mixed, Standard, losses, pairs_of
from slc_ops.methods.fitting.options import EFFECTS
from slc_ops.methods.fitting.prior_variance import (
    HALF_LASTS,
    MARGIN,
    ChoiceRows,
    Prior,
    Split,
    rows_of_choice,
)
from slc_ops.numerics.crossed import Shape, Variances, shrunk
from slc_ops.numerics.kernels import Floats
from slc_ops.numerics.newton import State

ORDER = ("group", "user", "slope")
VARIANCES = {"group": (1.0, 1 / 4, 1 / 16, 1 / 64), "user": (1.0, 1 / 4, 1 / 16, 1 / 64),
             "slope": (1 / 4, 1 / 16, 1 / 64)}  # fmt: skip
LIKELIER = 1.0  # log marginal likelihood that the earlier rows must gain
LIKELIER_ALONE = 2.0  # the same if there are no later rows: noise gains that much in one case of fifty
_LAST_GAIN = 1e-6  # per unit of weight: a step with a smaller expected gain changes no choice


@dataclass(frozen=True)
class Chosen:
    """Variance and lasting share of each block."""

    variances: Variances
    shares: dict[str, float]
    near: tuple[Floats, Floats, Floats, Floats] | None = None
    """Line, items, slopes and groups of the fit to the earlier rows: a start for a fit to all rows."""

    @property
    def entered(self) -> tuple[str, ...]:
        """The blocks beside the items' offsets."""
        return tuple(name for name in ORDER if getattr(self.variances, name))

    @property
    def in_order(self) -> tuple[float, ...]:
        """The shares in the order of :func:`slc_ops.numerics.crossed.shrunk`."""
        return tuple(self.shares.get(name, 1.0) for name in EFFECTS)


def choose_blocks(calibration: Calibration, prior: Prior, mean: Floats | None) -> Chosen:
    """Choose the blocks of a log on its rows or a sample; only those in the option ``effects`` may enter.

    ``mean`` is the items' prior mean where it is not 0.
    """
    chosen = Chosen(Variances(item=prior.variance), {"item": prior.lasting})
    allowed = calibration.options.effects
    groups = "group" in allowed and calibration.log.groups is not None
    if (known := rows_of_choice(calibration, groups=groups)) is None:
        return chosen
    trial = _Trial.of(calibration, known, mean)
    before = trial.fitted(trial.start, chosen)
    for name in ORDER:
        if name in allowed and trial.can(name, chosen):
            found = trial.entering(name, before)
            if found is not None:
                before, chosen = found, found.chosen
    item, slope, group, _ = trial.model.shape.split(before.state.offset)
    return replace(chosen, near=(before.state.link, item, slope, group))


@dataclass(frozen=True)
class _Found:
    chosen: Chosen
    state: State
    losses: Floats
    """Of the later rows; empty if times do not separate any."""
    evidence: float
    """The negative log marginal likelihood of the earlier rows."""

    @property
    def criterion(self) -> float:
        """The loss of the later rows; without them the evidence."""
        return float(np.sum(self.losses)) if len(self.losses) else self.evidence


@dataclass(frozen=True)
class _Trial:
    """The earlier rows for fitting the blocks, and the later rows for scoring them."""

    model: Mixed
    split: Split | None
    start: State

    @classmethod
    def of(cls, calibration: Calibration, known: ChoiceRows, mean: Floats | None) -> "_Trial":
        allowed, workers = calibration.options.effects, calibration.options.workers
        groups = calibration.log.groups if "group" in allowed else None
        standard, cells = Standard(*calibration.logit_scale), Cells(calibration.n_items)
        rows, split = known.rows, Split.of(known.rows, known.held)
        if groups is not None and len(groups) and rows.group is not None:
            cells = Cells.of_pairs(calibration.n_items, len(groups), pairs_of(len(groups), rows))
        n_users = 0 if rows.user is None or "user" not in allowed else int(rows.user.max()) + 1
        shape = cells.shape(n_users, mean)
        past = rows if split is None else split.past
        part = SampledRows(past)
        rate = float(np.average(past.label, weights=past.weight))
        start = State(np.array([0.0, np.log(rate / (1.0 - rate))]), shape.zeros)
        by_user = ByUser.of(past, cells, standard, n_users) if n_users else None
        return cls(Mixed(part, part.weight, workers, cells, shape, standard, by_user), split, start)

    def can(self, name: str, chosen: Chosen) -> bool:
        """Return True if the block has more than one level, or slopes have items and a spread of logits."""
        shape: Shape = self.model.shape
        if name == "slope":
            return chosen.variances.item > 0 and self.model.standard.spread > 0
        return (shape.groups if name == "group" else shape.users) > 1

    def entering(self, name: str, before: _Found) -> _Found | None:
        """Return the block with its best variance and share; None unless later and earlier rows gain."""
        chosen = before.chosen
        found: list[_Found] = []
        for variance in VARIANCES[name]:
            each = replace(chosen, variances=replace(chosen.variances, **{name: variance}))
            found.append(self.fitted(found[-1].state if found else before.state, each))
            if len(found) > 1 and found[-1].criterion > found[-2].criterion:
                break
        whole = min(found, key=lambda each: each.criterion)
        if self.wanted(before, whole):
            return whole
        if self.split is None:
            return None
        halves = []
        for one in found:
            share = replace(one.chosen, shares={**one.chosen.shares, name: HALF_LASTS})
            halves.append(replace(one, chosen=share, losses=self.lost(one.state, share)))
        half = min(halves, key=lambda each: each.criterion)
        return half if self.wanted(before, half) else None

    def fitted(self, start: State, chosen: Chosen) -> _Found:
        """Fit the earlier rows, and score the later ones."""
        found = self.model.minimise(start, chosen.variances, last_gain=_LAST_GAIN)
        return _Found(chosen, found.state, self.lost(found.state, chosen), found.near.evidence())

    def lost(self, state: State, chosen: Chosen) -> Floats:
        """Return the losses of the later rows under the lasting part of a fit."""
        model = self.model
        if self.split is None:
            return np.empty(0)
        if any(share != 1.0 for share in chosen.in_order):
            state = shrunk(model.shape, state, chosen.in_order)
            for _ in range(2):
                state = model.visit(state, chosen.variances).relinked()
        return losses(model.cells, model.shape, model.standard, state, self.split.ahead)

    def wanted(self, before: _Found, after: _Found) -> bool:
        """Return True if the later rows gain half a standard error, and the earlier ones are likelier, too.

        Without later rows the earlier ones must be likelier still.
        """
        likelier = before.evidence - after.evidence
        if self.split is None:
            return likelier >= LIKELIER_ALONE
        gain = before.losses - after.losses
        whole = float(np.sum(gain))
        return whole > 0 and whole >= MARGIN * self.split.error_of(gain) and likelier >= LIKELIER
