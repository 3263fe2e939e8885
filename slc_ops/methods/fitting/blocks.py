"""The choice of the blocks of ``slc_mix`` beside the items' offsets, and of their priors, on held-out rows.

The choice imitates deployment like that of the items' variance
(:mod:`slc_ops.methods.fitting.prior_variance`): the blocks are fitted to the earlier part of the rows and
predict the later part. They are tried in the order group, user, slope, each beside those that have entered.

* The variance v of a block is the one of ``VARIANCES`` with the smallest loss on the held-out rows.
* The block enters if the held-out rows gain at least half a standard error (of the users' sums) and the
  marginal likelihood of the earlier rows rises by a factor of e, too: half a standard error alone accepts one
  block in five that is pure noise. A block that does not enter is absent.
* Its lasting share s is 1 if it enters so. Otherwise half of it (s = ½) may still enter.

Halving whenever that looks better is worse by measurement: held-out rows of a user are the nearest ones to
its other rows, and preferred ½ on a pair of logs whose next rows preferred 1 (decision 0111).
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from slc_ops.methods.fitting.logistic import SampledRows
from slc_ops.methods.fitting.mixed import ByUser, Cells, Mixed, Standard, losses, pair_of
from slc_ops.methods.fitting.prior_variance import HALF_LASTS, MARGIN, Prior, held_out
from slc_ops.numerics.crossed import Shape, Variances, shrunk
from slc_ops.numerics.kernels import Floats
from slc_ops.numerics.newton import State
from slc_ops.rows.rows import Rows

ORDER = ("group", "user", "slope")
VARIANCES = {"group": (1.0, 1 / 4, 1 / 16, 1 / 64), "user": (1.0, 1 / 4, 1 / 16, 1 / 64),
             "slope": (1 / 4, 1 / 16, 1 / 64)}  # fmt: skip
LIKELIER = 1.0  # log marginal likelihood that the earlier rows must gain
_LAST_GAIN = 1e-6  # per unit of weight: a step with a smaller expected gain changes no choice
BLOCKS = ("item", "slope", "group", "user")


@dataclass(frozen=True)
class Chosen:
    """Variance and lasting share of each block, and the gains on held-out rows of those that entered."""

    variances: Variances
    shares: dict[str, float]
    gains: dict[str, float]
    """NLL per unit of held-out weight."""
    near: tuple[Floats, Floats, Floats, Floats] | None = None
    """Line, items, slopes and groups of the fit to the earlier rows: a start for a fit to all rows."""

    @property
    def entered(self) -> tuple[str, ...]:
        """The blocks beside the items' offsets."""
        return tuple(name for name in ORDER if getattr(self.variances, name))

    @property
    def in_order(self) -> tuple[float, ...]:
        """The shares in the order of :func:`slc_ops.numerics.crossed.shrunk`."""
        return tuple(self.shares.get(name, 1.0) for name in BLOCKS)


def choose_blocks(
    rows: Rows | None,
    n_items: int,
    n_groups: int,
    prior: Prior,
    standard: Standard,
    allowed: Collection[str],
    workers: int,
    mean: Floats | None = None,
) -> Chosen:
    """Choose the blocks of a log on its rows or a sample; only blocks in ``allowed`` may enter."""
    chosen = Chosen(Variances(item=prior.variance), {"item": prior.lasting}, {})
    held = None if rows is None else held_out(rows)
    if rows is None or held is None or not _both_classes(rows, held):
        return chosen
    trial = _Trial.of(rows, held, n_items, n_groups if "group" in allowed else 0, standard, workers, mean)
    before = trial.foretold(trial.start, chosen)
    for name in ORDER:
        if name in allowed and trial.can(name, chosen):
            found = trial.entering(name, before)
            if found is not None:
                gain = float(np.sum(before.losses - found.losses)) / trial.weight
                chosen = replace(found.chosen, gains={**chosen.gains, name: gain})
                before = replace(found, chosen=chosen)
    item, slope, group, _ = trial.model.shape.split(before.state.offset)
    return replace(chosen, near=(before.state.link, item, slope, group))


def _both_classes(rows: Rows, held: NDArray[np.bool_]) -> bool:
    label, counts = rows.label, np.ones(len(rows), bool) if rows.weight is None else rows.weight > 0
    return all(len(set(np.unique(label[side & counts]).tolist())) == 2 for side in (held, ~held))


@dataclass(frozen=True)
class _Found:
    chosen: Chosen
    state: State
    losses: Floats
    evidence: float
    """The negative log marginal likelihood of the earlier rows."""


@dataclass(frozen=True)
class _Trial:
    """The earlier rows for fitting the blocks, and the later rows for scoring them."""

    model: Mixed
    ahead: Rows
    unit: NDArray[np.intp]
    """The units of observation of the later rows: their users, or their items."""
    weight: float
    start: State

    @classmethod
    def of(
        cls,
        rows: Rows,
        held: NDArray[np.bool_],
        n_items: int,
        n_groups: int,
        standard: Standard,
        workers: int,
        mean: Floats | None,
    ) -> "_Trial":
        cells = Cells(n_items)
        if n_groups and rows.group is not None:
            cells = Cells.of_pairs(n_items, n_groups, np.unique(pair_of(n_groups, rows)))
        n_users = 0 if rows.user is None else int(rows.user.max()) + 1
        shape = replace(cells.shape(n_users), mean=mean)
        past, ahead = rows.chosen(~held), rows.chosen(held)
        part = SampledRows(past)
        rate = float(np.average(past.label, weights=past.weight))
        start = State(np.array([0.0, np.log(rate / (1.0 - rate))]), shape.zeros)
        model = Mixed(part, part.weight, workers, cells, shape, standard)
        unit = ahead.codes if ahead.user is None else ahead.user
        return cls(model, ahead, np.unique(unit, return_inverse=True)[1], SampledRows(ahead).weight, start)

    def can(self, name: str, chosen: Chosen) -> bool:
        """Return True if the block has more than one level, or slopes have items and a spread of logits."""
        shape: Shape = self.model.shape
        if name == "slope":
            return chosen.variances.item > 0 and self.model.standard.spread > 0
        return (shape.groups if name == "group" else shape.users) > 1

    def entering(self, name: str, before: _Found) -> _Found | None:
        """Return the block with its best variance and share; None unless later and earlier rows gain."""
        trial, chosen = self._with_users() if name == "user" else self, before.chosen
        found: list[_Found] = []
        for variance in VARIANCES[name]:
            each = replace(chosen, variances=replace(chosen.variances, **{name: variance}))
            found.append(trial.foretold(found[-1].state if found else before.state, each))
            if len(found) > 1 and np.sum(found[-1].losses) > np.sum(found[-2].losses):
                break
        whole = min(found, key=lambda each: float(np.sum(each.losses)))
        if self.wanted(before, whole):
            return whole
        halves = []
        for one in found:
            share = replace(one.chosen, shares={**one.chosen.shares, name: HALF_LASTS})
            halves.append(replace(one, chosen=share, losses=trial.lost(one.state, share)))
        half = min(halves, key=lambda each: float(np.sum(each.losses)))
        return half if self.wanted(before, half) else None

    def _with_users(self) -> "_Trial":
        model = self.model
        assert isinstance(model.source, SampledRows)  # noqa: S101
        by_user = ByUser.of(model.source.selected, model.cells, model.standard, model.shape.users)
        object.__setattr__(self, "model", replace(model, by_user=by_user))
        return self

    def foretold(self, start: State, chosen: Chosen) -> _Found:
        """Fit the earlier rows, and return the losses of the later ones."""
        found = self.model.minimise(start, chosen.variances, last_gain=_LAST_GAIN)
        return _Found(chosen, found.state, self.lost(found.state, chosen), found.near.evidence())

    def lost(self, state: State, chosen: Chosen) -> Floats:
        """Return the losses of the later rows under the lasting part of a fit."""
        model = self.model
        if any(share != 1.0 for share in chosen.in_order):
            state = shrunk(model.shape, state, chosen.in_order)
            for _ in range(2):
                state = model.visit(state, chosen.variances).relinked()
        return losses(model.cells, model.shape, model.standard, state, self.ahead)

    def wanted(self, before: _Found, after: _Found) -> bool:
        """Return True if the later rows gain half a standard error, and the earlier ones are likelier, too.

        The rows of a user are one observation.
        """
        gain = before.losses - after.losses
        sums, whole = np.bincount(self.unit, gain), float(np.sum(gain))
        enough = MARGIN * float(np.sqrt(len(sums) * np.var(sums)))
        return whole > 0 and whole >= enough and before.evidence - after.evidence >= LIKELIER
