"""Newton's step of crossed effects: items (offset and slope), groups and users beside the line of all rows.

With z the standardised logit a row has η = b₀ + a·z + cᵢ + dᵢ·z + g + u, and every block is normal around 0.
Rows of one item and one group share a *cell*, so the curvature of line, items and groups needs five sums per
cell: Σr, Σrz, Σh, Σhz, Σhz². The products of items and users need the rows (:class:`UserCurve`).

A step solves H·s = −g up to a tolerance:

1. offset and slope of an item do not interact with those of other items, so they are eliminated, 2×2 by 2×2;
2. the rest (line, groups, users) is solved by conjugate gradients, with the line's 2×2 block and the
   diagonal of the others as preconditioner.

Items and their groups explain the same rows. Steps of one block after the other would converge slowly along
directions that two blocks share; here both move together, and three or four passes over the rows are enough.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from slc_ops.base.additive import Additive
from slc_ops.numerics.kernels import Floats, dot, total
from slc_ops.numerics.newton import Local, State

Codes = NDArray[np.intp]
MAX_ROUNDS = 200
EXACT = 1e-9  # share of the gradient that a step may leave, and the part of a step of length 1 with users
FAR = 2.0  # maximum step of an item's offset and slope
WITH_USERS = (1e-3, 1e-1)  # smallest and largest share with users, where a round costs a pass over rows


@dataclass(frozen=True)
class Variances:
    """The prior variance of each block; a block of variance 0 is absent."""

    item: float = 0.0
    slope: float = 0.0
    group: float = 0.0
    user: float = 0.0

    def precision(self, block: str) -> float:
        """Return 1/v; 0 for an absent block, which contributes nothing."""
        variance: float = getattr(self, block)
        return 1.0 / variance if variance else 0.0


@dataclass(frozen=True)
class Shape:
    """The numbers of items, groups and users; the item and the group of each cell.

    The coefficients are concatenated: offsets and slopes of the items, groups, users. The last group and the
    last user belong to rows that have none, and are always 0. ``mean`` is the items' prior mean where it is
    not 0; their offsets are added to it.
    """

    items: int
    groups: int
    users: int
    item_of: Codes
    group_of: Codes
    mean: Floats | None = None

    def split(self, offset: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return items' offsets, items' slopes, groups, users."""
        ends = np.cumsum([self.items, self.items, self.groups + 1])
        item, slope, group, user = np.split(offset, ends)
        return item, slope, group, user

    @property
    def zeros(self) -> Floats:
        """Return coefficients that are all 0."""
        return np.zeros(2 * self.items + self.groups + self.users + 2)

    def tables(self, state: State) -> tuple[Floats, Floats, Floats]:
        """Return base, tilt and user, with η of a row = base[cell] + tilt[cell]·z + user[its user]."""
        item, slope, group, user = self.split(state.offset)
        item = item if self.mean is None else item + self.mean
        base = item[self.item_of] + group[self.group_of] + state.link[1]
        return base, slope[self.item_of] + state.link[0], user


@dataclass
class CellSums(Additive):
    """−Σ log-likelihood, and per cell Σr, Σrz, Σh, Σhz, Σhz² with r = w(p − y), h = w·p(1 − p)."""

    nll: float
    r: Floats
    rz: Floats
    h: Floats
    hz: Floats
    hzz: Floats


@dataclass(frozen=True)
class UserCurve:
    """Sums over the rows of each user: Σr and Σh, and the products of users and cells."""

    r: Floats
    h: Floats
    from_cells: Callable[[Floats, Floats], Floats]
    """From values by cell: Σ h·(flat[cell] + tilted[cell]·z) per user."""
    to_cells: Callable[[Floats], tuple[Floats | float, Floats | float]]
    """From values by user: Σ h·user and Σ hz·user per cell."""

    @classmethod
    def absent(cls, shape: Shape) -> "UserCurve":
        """Return the sums of a model without user effects."""
        nothing = np.zeros(shape.users + 1)
        return cls(nothing, nothing, lambda flat, tilted: nothing, lambda user: (0.0, 0.0))


@dataclass(frozen=True)
class Crossed(Local):
    """The penalised likelihood at a state; ``block`` is the line's part of the Hessian."""

    shape: Shape
    variances: Variances
    sums: CellSums
    users: UserCurve

    @classmethod
    def of(
        cls, state: State, shape: Shape, variances: Variances, sums: CellSums, users: UserCurve
    ) -> "Crossed":
        """Create it from the sums of the rows."""
        item, slope, group, user = shape.split(state.offset)
        found = {
            "item": (total(shape.item_of, sums.r, shape.items), item),
            "slope": (total(shape.item_of, sums.rz, shape.items), slope),
            "group": (total(shape.group_of, sums.r, shape.groups + 1), group),
            "user": (users.r, user),
        }
        value, gradient = sums.nll, []
        for name, (pull, values) in found.items():
            precision = variances.precision(name)
            value += 0.5 * precision * dot(values, values)
            gradient.append(pull + precision * values if precision else np.zeros_like(values))
        gradient[2][-1] = gradient[3][-1] = 0.0
        h, hz, hzz = (float(np.sum(each)) for each in (sums.h, sums.hz, sums.hzz))
        line = np.array([np.sum(sums.rz), np.sum(sums.r)])
        whole = State(line, np.concatenate(gradient))
        block = np.array([[hzz, hz], [hz, h]])
        return cls(state, value, whole, block, (), np.empty(0), shape, variances, sums, users)

    @cached_property
    def eliminated(self) -> tuple[Floats, Floats, Floats]:
        """Return the inverse of each item's 2×2 block (offset, both, slope); 0 where a block is absent."""
        sums, shape, variances = self.sums, self.shape, self.variances
        nothing = np.zeros(shape.items)
        if not variances.item:
            return nothing, nothing, nothing
        flat = total(shape.item_of, sums.h, shape.items) + variances.precision("item")
        if not variances.slope:
            return 1.0 / flat, nothing, nothing
        both = total(shape.item_of, sums.hz, shape.items)
        steep = total(shape.item_of, sums.hzz, shape.items) + variances.precision("slope")
        determinant = flat * steep - both * both
        return steep / determinant, -both / determinant, flat / determinant

    def step(self, limit: float = np.inf) -> tuple[State, float]:
        """Return −H⁻¹g, and the decrease along it that the local curvature predicts."""
        item, slope, group, user = self.shape.split(self.gradient.offset)
        down = self._per_item(item, slope)
        right = -np.concatenate([self.gradient.link, group, user]) + self._rest(*self._through(*down))
        found = self._conjugate_gradients(right)
        line, group, user = self._parts(found)
        flat, tilted = self._of_cells(found)
        more = (total(self.shape.item_of, each, self.shape.items) for each in (flat, tilted))
        pulled = [own + each for own, each in zip((item, slope), more, strict=True)]
        steps = [-each for each in self._per_item(*pulled)]
        step = State(line, np.concatenate([*steps, group, user]))
        if (longest := float(np.max(np.abs(line)))) > limit:
            step = State(step.link * (limit / longest), step.offset * (limit / longest))
        shorter = State(step.link, self._shortened(step.offset))
        decrease = self._decrease(shorter)
        return (shorter, decrease) if decrease > 0 else (step, self._decrease(step))

    def _shortened(self, offset: Floats) -> Floats:
        """Limit the step of each item to ``FAR``.

        Where all rows of an item are saturated, its curvature vanishes, and its step overshoots. The step of
        all items would then be halved because of one.
        """
        items = 2 * self.shape.items
        longest = np.max(np.abs(offset[:items].reshape(2, -1)), axis=0, initial=FAR)
        return np.concatenate([(offset[:items].reshape(2, -1) * (FAR / longest)).ravel(), offset[items:]])

    def _decrease(self, step: State) -> float:
        """Return half of the directional derivative: the decrease that the curvature predicts."""
        return -0.5 * (dot(self.gradient.link, step.link) + dot(self.gradient.offset, step.offset))

    def evidence(self) -> float:
        """Return Laplace's approximation of −log marginal likelihood; users enter without interactions."""
        v, found = self.variances, self.value
        if v.item:
            flat = total(self.shape.item_of, self.sums.h, self.shape.items) + 1.0 / v.item
            found += 0.5 * float(np.sum(np.log(v.item * flat)))
            if v.slope:  # 1/steep is the slope's entry of the inverse
                found += 0.5 * float(np.sum(np.log(v.slope / self.eliminated[2])))
        if v.group:
            found += 0.5 * float(np.sum(np.log(v.group * self._of_groups()[:-1])))
        if v.user:
            found += 0.5 * float(np.sum(np.log1p(v.user * self.users.h[:-1])))
        return found

    def relinked(self) -> State:
        """Return the same effects with a refitted line: one Newton step of the line alone."""
        block = self.block + (1e-13 * float(np.trace(self.block)) + 1e-300) * np.eye(2)
        return State(self.state.link - np.linalg.solve(block, self.gradient.link), self.state.offset)

    # --- the rest without the items: line, groups, users -----------------------------------------------

    def _parts(self, rest: Floats) -> tuple[Floats, Floats, Floats]:
        line, group, user = np.split(rest, [2, 3 + self.shape.groups])
        return line, group, user

    def _per_item(self, item: Floats, slope: Floats) -> tuple[Floats, Floats]:
        flat, both, steep = self.eliminated
        return flat * item + both * slope, both * item + steep * slope

    def _through(self, item: Floats, slope: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the effect of items' offsets and slopes on the cells' Σr and Σrz and on the users' Σr."""
        sums, flat, tilted = self.sums, item[self.shape.item_of], slope[self.shape.item_of]
        users = self.users.from_cells(flat, tilted)
        return sums.h * flat + sums.hz * tilted, sums.hz * flat + sums.hzz * tilted, users

    def _of_cells(self, rest: Floats) -> tuple[Floats, Floats]:
        """Return the effect of line, groups and users on the cells' Σr and Σrz."""
        sums, (line, group, user) = self.sums, self._parts(rest)
        level = line[1] + group[self.shape.group_of]
        flat, tilted = sums.h * level + sums.hz * line[0], sums.hz * level + sums.hzz * line[0]
        more = self.users.to_cells(user)
        return flat + more[0], tilted + more[1]

    def _rest(self, flat: Floats, tilted: Floats, users: Floats) -> Floats:
        """Convert changes of cells and users to changes of the gradient of line, groups and users."""
        group = total(self.shape.group_of, flat, self.shape.groups + 1)
        return np.concatenate([[np.sum(tilted), np.sum(flat)], group, users])

    def _curved(self, rest: Floats) -> Floats:
        """Apply the curvature of the rest to a direction."""
        shape, sums, (line, group, user) = self.shape, self.sums, self._parts(rest)
        flat, tilted = self._of_cells(rest)
        item, slope = self._per_item(*(total(shape.item_of, each, shape.items) for each in (flat, tilted)))
        own, leaning = -item[shape.item_of], -slope[shape.item_of]
        level = line[1] + group[shape.group_of] + own
        users = self.users.from_cells(level, line[0] + leaning) + self.users.h * user
        flat = flat + sums.h * own + sums.hz * leaning
        tilted = tilted + sums.hz * own + sums.hzz * leaning
        prior = self.variances.precision("group") * group, self.variances.precision("user") * user
        curved: Floats = self._rest(flat, tilted, users) + np.concatenate([[0.0, 0.0], *prior])
        return curved

    def _preconditioner(self) -> tuple[Floats, Floats]:
        """Return the inverse of the line's 2×2 block and of the diagonal of groups and users (0: fixed)."""
        shape, sums, variances = self.shape, self.sums, self.variances
        group = self._of_groups()
        user = self.users.h + variances.precision("user")
        inverse = [
            np.divide(1.0, each, out=np.zeros_like(each), where=(each > 0) & bool(free))
            for each, free in ((group, variances.group), (user, variances.user))
        ]
        inverse[0][-1] = inverse[1][-1] = 0.0
        by_item = [total(shape.item_of, each, shape.items) for each in (sums.h, sums.hz, sums.hzz)]
        line = self.block - self._absorbed(*by_item)
        line = line + (1e-13 * float(np.trace(self.block)) + 1e-300) * np.eye(2)
        return np.asarray(np.linalg.inv(line), np.float64), np.concatenate(inverse)

    def _of_groups(self) -> Floats:
        """Return the curvature of each group after elimination of its items."""
        shape, sums = self.shape, self.sums
        p, q, s = (each[shape.item_of] for each in self.eliminated)
        left = sums.h - (sums.h * sums.h * p + 2.0 * sums.h * sums.hz * q + sums.hz * sums.hz * s)
        found = total(shape.group_of, np.maximum(left, 0.0), shape.groups + 1)
        return found + self.variances.precision("group")

    def _absorbed(self, h: Floats, hz: Floats, hzz: Floats) -> Floats:
        """Return the items' part of the line's curvature: Σ T·D⁻¹·T of their 2×2 blocks."""
        columns = {0: (hz, hzz), 1: (h, hz)}  # slope and intercept against the item's offset and slope
        moved = {j: self._per_item(*column) for j, column in columns.items()}
        return np.array(
            [
                [dot(columns[j][0], moved[k][0]) + dot(columns[j][1], moved[k][1]) for k in (0, 1)]
                for j in (0, 1)
            ]
        )

    def _tolerance(self, size: float) -> float:
        """Return the share of the gradient that the step may leave.

        Far from the minimum the next step has to correct this one anyway, and the last, short step needs few
        digits: a precise solution is worth its rounds only in between.
        """
        if not self.variances.user or size <= 0:
            return EXACT
        length = float(np.sqrt(size / self.block[1, 1]))
        return min(max(length, EXACT / length, WITH_USERS[0]), WITH_USERS[1])

    def _conjugate_gradients(self, right: Floats) -> Floats:
        line, others = self._preconditioner()

        def preconditioned(residual: Floats) -> Floats:
            return np.concatenate([line @ residual[:2], others * residual[2:]])

        found, residual = np.zeros_like(right), right
        towards = preconditioned(residual)
        direction, size = towards, dot(residual, towards)
        enough = size * self._tolerance(size) ** 2
        for _ in range(MAX_ROUNDS):
            if size <= enough or size <= 0:
                break
            curved = self._curved(direction)
            if (bend := dot(direction, curved)) <= 0:  # only rounding error is left
                break
            found = found + size / bend * direction
            residual = residual - size / bend * curved
            towards = preconditioned(residual)
            size, before = dot(residual, towards), size
            direction = towards + size / before * direction
        return found


def shrunk(shape: Shape, state: State, shares: Sequence[float]) -> State:
    """Multiply each block by its share: items' offsets, their slopes, groups and users."""
    parts = zip(shares, shape.split(state.offset), strict=True)
    return State(state.link, np.concatenate([share * values for share, values in parts]))
