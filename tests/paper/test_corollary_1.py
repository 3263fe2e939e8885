"""Corollary 1 of the paper: under 1PL drift, link and offsets by item and time recover the truth exactly.

η* = θ − b(0) − Δ(t) and η₀ = α(θ − b(0)) + c₀, so η* = a·η₀ + b + β(i, t) with a = 1/α, b = −c₀/α and
β(i, t) = −Δᵢ(t). Every row has both labels, weighted by the true probability: the sums equal those of
infinitely many draws, and the remaining error is that of the model.
"""

import numpy as np
import pyarrow as pa
import pytest

from slc_ops.methods.fitting.calibration import Calibration, ItemOffsets
from slc_ops.methods.fitting.link import fit_link
from slc_ops.rows.interactions import InteractionLog

ITEMS, BINS, STUDENTS = 30, 6, 40
ALPHA, SHIFT = 0.8, 0.1
EDGES = np.arange(-1.0, BINS)


class Expected:
    """All students on all items in all bins, with expected labels."""

    def __init__(self, slopes: np.ndarray, alpha: float = ALPHA, shift: float = SHIFT) -> None:
        rng = np.random.default_rng(5)
        self.drift = np.cumsum(rng.normal(0, 0.4, (ITEMS, BINS)), axis=1)
        ability, difficulty = rng.normal(0, 1, STUDENTS), rng.normal(0, 1, ITEMS)
        student, item, time = (each.ravel() for each in np.mgrid[0:STUDENTS, 0:ITEMS, 0:BINS])
        self.truth = slopes[item] * ability[student] - difficulty[item] - self.drift[item, time]
        self.logit = alpha * (ability[student] - difficulty[item]) + shift
        self.cell = item, time
        p = 1 / (1 + np.exp(-self.truth))
        both = {
            name: np.tile(values, 2)
            for name, values in (("item_id", item), ("event_time", time), ("logit", self.logit))
        }
        label = np.repeat([1, 0], p.size).astype(np.int8)
        self.log = InteractionLog.from_table(
            pa.table({**both, "label": label, "weight": np.concatenate([p, 1 - p])})
        )

    def residual_mse(self, a: float, b0: float, offset: np.ndarray) -> float:
        return float(np.mean((a * self.logit + b0 + offset[self.cell] - self.truth) ** 2))


@pytest.mark.parametrize(("alpha", "shift"), [(0.8, 0.1), (0.3, -1.5), (2.5, 0.7)])
def test_the_link_recovers_the_backbones_scale_and_shift_and_the_residual_is_zero(alpha, shift):
    made = Expected(np.ones(ITEMS), alpha, shift)
    link = fit_link(Calibration(made.log), ItemOffsets(-made.drift, EDGES))
    assert link.a == pytest.approx(1 / alpha, abs=1e-6)
    assert link.b0 == pytest.approx(-shift / alpha, abs=1e-6)
    assert made.residual_mse(link.a, link.b0, -made.drift) < 1e-12


def test_offsets_inside_the_scale_do_not_recover_it():
    """σ(a(η₀ + β) + b₀) is another model: at a = 1/α its offsets would have to be −α·Δ."""
    made = Expected(np.ones(ITEMS))
    a, b0 = 1 / ALPHA, -SHIFT / ALPHA
    assert made.residual_mse(a, b0, -made.drift) < 1e-20
    assert made.residual_mse(a, b0, a * -made.drift) > 0.01


def test_one_offset_per_item_leaves_the_drift_within_the_item():
    made = Expected(np.ones(ITEMS))
    mean = -made.drift.mean(axis=1)
    link = fit_link(Calibration(made.log), ItemOffsets(mean))
    left = made.residual_mse(link.a, link.b0, np.repeat(mean[:, None], BINS, axis=1))
    within = float(np.var(made.drift, axis=1).mean())
    assert left == pytest.approx(within, rel=0.05)


def test_slopes_of_a_2pl_world_leave_a_residual():
    slopes = np.random.default_rng(6).normal(1, 0.3, ITEMS)
    made = Expected(slopes)
    link = fit_link(Calibration(made.log), ItemOffsets(-made.drift, EDGES))
    assert made.residual_mse(link.a, link.b0, -made.drift) > 0.01
