"""The offsets of all items at once, each a strictly convex problem in one variable.

Minimised is −Σ log-likelihood of σ(η₀ + bᵢ) + Σ bᵢ²/(2σ_b²). Each row belongs to one item, so the Hessian is
diagonal: with g = Σ(y − p) − bᵢ/σ_b², h = Wᵢ + 1/σ_b² and T = Σp(1 − p)(1 − 2p), Halley's step

    bᵢ ← bᵢ + 2gh / (2h² + gT).

A pass over the rows is expensive, so it brings T too: |T| and the next derivative are at most h, hence a step
of length s leaves at most 5/12·s³ behind. The first step needs no T: an item's rows are taken for n equal
ones with the same Σp and, in b, the same slope Wᵢ, and that model is solved. An item whose step is small
enough is settled, and later passes look at the rows of the others only.

A step from saturated logits can overshoot for ever; the gradient's sign tells on which side of bᵢ the minimum
lies, so each item keeps a bracket, and a step that leaves it (after fifteen passes also one that is not at
most half the step before) is replaced by a step to the bracket's middle. So every item damps its own steps,
and none has to be halved for all.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.numerics.kernels import Floats, Sums, sigmoid
from slc_ops.numerics.newton import descend

PATIENCE = 15
LAST_STEP = 2e-4  # what is left behind is below 1e-11
NO_STEP = 1e-11
MODEL_STEPS = 8


@dataclass(frozen=True)
class OffsetPoint:
    """Per item: the offset, Σp, Σp(1−p) and Σp(1−p)(1−2p) there, its bracket, the step before it, and whether
    it still moves; and how many passes it took."""

    offset: Floats
    p: Floats
    fisher: Floats
    skew: Floats
    low: Floats
    high: Floats
    before: Floats
    moving: NDArray[np.bool_]
    passes: int


@dataclass(frozen=True)
class OffsetStep:
    """Where each item goes, its bracket, and whether it will still move from there."""

    change: Floats
    low: Floats
    high: Floats
    moving: NDArray[np.bool_]

    @property
    def length(self) -> float:
        """The longest."""
        return float(np.max(np.abs(self.change)))

    @property
    def last(self) -> bool:
        """Whether every item is settled."""
        return not self.moving.any()


@dataclass(frozen=True)
class OffsetProblem:
    """The penalised likelihood of every item."""

    calibration: Calibration

    @property
    def precision(self) -> float:
        """1/σ_b²."""
        return 1.0 / self.calibration.options.prior_var

    def start(self) -> OffsetPoint:
        """No offsets, and brackets that hold every minimum."""
        sums, size = self.calibration.item_sums, self.calibration.n_items
        # At the minimum b/σ_b² = Σ(y − p) ≤ n·e^(max|η₀| − b), so b ≤ max|η₀| + log(n·σ_b²), or b ≤ 1.
        high = self.calibration.largest_logit + np.log1p(sums.n / self.precision) + 1.0
        zeros, moving = np.zeros(size), np.ones(size, np.bool_)
        return OffsetPoint(zeros, sums.p, sums.fisher, zeros, -high, high, 2.0 * high, moving, 0)

    def step(self, here: OffsetPoint) -> OffsetStep:
        """Halley's step of every item that still moves, kept within its bracket."""
        downhill = self.calibration.item_sums.y - here.p - self.precision * here.offset
        curvature = here.fisher + self.precision
        low = np.where(downhill > 0, here.offset, here.low)
        high = np.where(downhill > 0, here.high, here.offset)
        if here.passes == 0:
            proposal = homogeneous_offsets(self.calibration.item_sums, here.offset, self.precision)
        else:
            # Never further than twice Newton's step.
            bent = np.maximum(2.0 * curvature**2 + downhill * here.skew, curvature**2)
            proposal = here.offset + 2.0 * downhill * curvature / bent
        accepted = (proposal >= low) & (proposal <= high)
        if here.passes >= PATIENCE:
            accepted &= np.abs(proposal - here.offset) <= np.maximum(np.abs(here.before) / 2, LAST_STEP)
        change = np.where(here.moving, np.where(accepted, proposal, (low + high) / 2) - here.offset, 0.0)
        settled = np.abs(change) < np.where(accepted & (here.passes > 0), LAST_STEP, NO_STEP)
        return OffsetStep(change, low, high, here.moving & ~settled)

    def visit(self, here: OffsetPoint, step: OffsetStep, share: float) -> OffsetPoint:
        """One pass over the rows of the items that still move."""
        sums, moving = self.calibration.item_sums, step.moving
        offset, fisher = moved(here, step)
        # Choosing rows costs something too: it pays where less than half of them are left.
        few = float(sums.n[moving].sum()) < 0.5 * self.calibration.total_weight
        found = self.calibration.offset_sums(offset, moving if few else np.ones_like(moving))
        p, fisher, skew = (
            np.where(moving, new, old) for new, old in zip(found, (here.p, fisher, here.skew), strict=True)
        )
        return OffsetPoint(offset, p, fisher, skew, step.low, step.high, step.change, moving, here.passes + 1)

    def accepts(self, here: OffsetPoint, there: OffsetPoint) -> bool:
        """The brackets have damped every step already."""
        return True

    def gains_nothing(self, here: OffsetPoint, there: OffsetPoint, step: OffsetStep) -> bool:
        """Every minimum is finite, so no step leads nowhere."""
        return False


def moved(here: OffsetPoint, step: OffsetStep) -> tuple[Floats, Floats]:
    """The offsets after a step, and to first order their Fisher weights."""
    return here.offset + step.change, here.fisher + here.skew * step.change


def converged_offsets(calibration: Calibration) -> tuple[Floats, Floats]:
    """bᵢ at the minimum and the inverse curvature there."""
    problem = OffsetProblem(calibration)
    found = descend(problem, problem.start())
    if found.end != "last step":
        raise found.not_converged("the item offsets")
    offset, fisher = moved(found.point, found.step)
    return offset, 1.0 / (fisher + problem.precision)


def homogeneous_offsets(sums: Sums, offset: Floats, precision: float) -> Floats:
    """The offsets that would be best if the rows of an item were all equal.

    An offset far from its end sees another curvature there than here. This follows it: an item's rows are
    taken for n rows with p = σ(x + κ·shift) each, of the same Σp and the same slope Σp(1 − p) at ``offset``.
    """
    share = np.clip(
        np.divide(sums.p, sums.n, out=np.full(len(sums.n), 0.5), where=sums.n > 0), 1e-12, 1 - 1e-12
    )
    x = np.log(share) - np.log1p(-share)
    slope = sums.fisher / np.maximum(sums.n * share * (1.0 - share), 1e-300)
    shift = np.zeros(len(share))
    for _ in range(MODEL_STEPS):
        p = sigmoid(x + slope * shift)
        downhill = sums.y - sums.n * p - precision * (offset + shift)
        shift += np.clip(downhill / (slope * sums.n * p * (1.0 - p) + precision), -1.0, 1.0)
    return np.asarray(offset + shift)
