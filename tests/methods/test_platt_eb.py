"""``platt_eb`` compared with a general minimiser and numerical integration."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp

from slc_ops.methods import fit, fit_prepared
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.logistic import Logistic
from slc_ops.methods.platt_eb import WIDTHS, averaged_link
from slc_ops.rows.interactions import InteractionLog


def log_of(rows: int, a: float = 1.0, b0: float = 0.0, seed: int = 0, weight: bool = False) -> InteractionLog:
    """Labels from the line a·η + b₀."""
    rng = np.random.default_rng(seed)
    logit = rng.normal(0.3, 1.4, rows)
    label = (rng.random(rows) < 1 / (1 + np.exp(-a * logit - b0))).astype(np.int8)
    columns = {"item_id": np.zeros(rows, int), "label": label, "logit": logit}
    return InteractionLog.from_table(
        pa.table(columns | ({"weight": rng.integers(0, 4, rows).astype(float)} if weight else {}))
    )


def departure(log: InteractionLog):
    """The penalised loss of (c, b) for a width, and the map from (c, b) to (a, b₀)."""
    weight = np.ones(log.n_rows) if log.weight is None else log.weight
    mean = np.average(log.logit, weights=weight)
    spread = np.sqrt(np.average((log.logit - mean) ** 2, weights=weight))
    x = (log.logit - mean) / spread

    def loss(v: np.ndarray, width: float) -> float:
        eta = log.logit + v[0] * x + v[1]
        return float(np.sum(weight * (np.logaddexp(0, eta) - log.label * eta)) + v @ v / (2 * width**2))

    def line(v: np.ndarray) -> list[float]:
        a = 1 + v[0] / spread
        return [a, v[1] - v[0] * mean / spread]

    return loss, line


def curvature(loss, v: np.ndarray, width: float, step: float = 1e-3) -> np.ndarray:
    """Second derivatives by finite differences."""
    axes = step * np.eye(2)
    return np.array(
        [[(loss(v + i + j, width) - loss(v + i - j, width) - loss(v - i + j, width) + loss(v - i - j, width))
          / (4 * step**2) for j in axes] for i in axes]
    )  # fmt: skip


@pytest.mark.parametrize("weight", [False, True])
@pytest.mark.parametrize(
    ("rows", "a", "b0"), [(60, 1.0, 0.0), (400, 1.0, 0.0), (400, 0.4, -0.8), (5000, 2.0, 1.0)]
)
def test_the_line_is_the_average_of_minima_by_their_marginal_likelihood(rows, a, b0, weight):
    log = log_of(rows, a, b0, weight=weight)
    loss, line = departure(log)
    lines, evidence = [], []
    for width in WIDTHS:
        best = minimize(loss, np.zeros(2), args=(width,), method="BFGS", options={"gtol": 1e-6}).x
        _, volume = np.linalg.slogdet(curvature(loss, best, width))
        lines.append(line(best))
        evidence.append(-loss(best, width) - 2 * np.log(width) - volume / 2)
    expected = np.exp(evidence - logsumexp(evidence)) @ np.array(lines)
    found = fit("platt_eb", log).link
    assert [found.a, found.b0] == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize(("rows", "a", "b0"), [(40, 1.0, 0.0), (300, 1.3, 0.4)])
def test_the_laplace_approximation_is_near_the_integral(rows, a, b0):
    log = log_of(rows, a, b0, seed=5)
    loss, line = departure(log)
    grid = np.linspace(-3, 3, 121)
    points = np.array([(c, b) for c in grid for b in grid])
    flat = np.array([loss(v, np.inf) for v in points])
    lines = np.array([line(v) for v in points])
    # Widths below the grid have little weight, and their lines are close to the frozen model's.
    weights = np.array(
        [
            logsumexp(-flat - np.sum(points**2, axis=1) / (2 * t**2) - 2 * np.log(t))
            for t in WIDTHS
            if t > 0.05
        ]
    )
    means = [
        np.exp(-flat - np.sum(points**2, axis=1) / (2 * t**2) - 2 * np.log(t) - w) @ lines
        for t, w in zip(WIDTHS, weights, strict=False)
    ]
    narrow = WIDTHS[WIDTHS <= 0.05]
    weights = np.append(weights, [-loss(np.zeros(2), np.inf) + np.log(2 * np.pi / 0.05**2)] * len(narrow))
    means += [np.array([1.0, 0.0])] * len(narrow)
    expected = np.exp(weights - logsumexp(weights)) @ np.array(means)
    found = fit("platt_eb", log).link
    assert [found.a, found.b0] == pytest.approx(expected, abs=0.05)


def test_few_rows_keep_the_frozen_model_unless_it_is_clearly_wrong():
    right, wrong = log_of(80, seed=2), log_of(400, a=0.2, b0=-1.5)
    near, plain = fit("platt_eb", right).link, fit("platt", right).link
    assert abs(near.a - 1) + abs(near.b0) < 0.6 * (abs(plain.a - 1) + abs(plain.b0))
    far, plain = fit("platt_eb", wrong).link, fit("platt", wrong).link
    assert [far.a, far.b0] == pytest.approx([plain.a, plain.b0], abs=0.02)


def test_with_many_rows_it_equals_platt_without_another_pass(monkeypatch):
    log = log_of(400_000, a=0.7, b0=0.2)
    calibration = Calibration(log)
    passes, visit = [], Logistic.visit
    monkeypatch.setattr(Logistic, "visit", lambda *given, **more: passes.append(1) or visit(*given, **more))
    plain = fit_prepared("platt", calibration).link
    before = len(passes)
    found = fit_prepared("platt_eb", calibration).link
    assert [found.a, found.b0] == pytest.approx([plain.a, plain.b0], abs=1e-4)
    assert len(passes) - before <= 6


def test_separated_labels_give_a_finite_line():
    log = InteractionLog.from_table(
        pa.table(
            {"item_id": [0] * 6, "label": [0, 0, 0, 1, 1, 1], "logit": [-2.0, -1.0, -0.5, 0.5, 1.0, 2.0]}
        )
    )
    found = fit("platt_eb", log)
    assert 1.0 < found.link.a < 10
    assert found.warnings == ()


def test_a_design_effect_equals_smaller_weights():
    rows = log_of(1000, a=0.5, b0=1.0)
    columns = {"item_id": np.zeros(1000, int), "label": rows.label, "logit": rows.logit}
    light = InteractionLog.from_table(pa.table(columns | {"weight": np.full(1000, 1 / 128)}))
    expected = averaged_link(Calibration(light))
    assert averaged_link(Calibration(rows), 128.0) == pytest.approx(expected, abs=1e-9)
    assert abs(averaged_link(Calibration(rows)) - expected).max() > 0.1


def test_equal_logits_keep_the_slope():
    log = InteractionLog.from_table(
        pa.table({"item_id": [0] * 400, "label": [1, 0, 0, 0] * 100, "logit": [0.7] * 400})
    )
    found = fit("platt_eb", log)
    assert found.link.a == 1.0
    assert found.link.b0 + 0.7 == pytest.approx(np.log(1 / 3), abs=0.05)


@pytest.mark.parametrize("effect", [16.0, 4096.0])
def test_a_design_effect_equals_rows_of_less_weight(effect):
    log = log_of(400, 0.4, -0.8)
    light = pa.array(np.full(400, 1 / effect))
    expected = averaged_link(
        Calibration(InteractionLog.from_table(log.as_table().append_column("weight", light)))
    )
    assert averaged_link(Calibration(log), effect) == pytest.approx(expected, rel=1e-12)
