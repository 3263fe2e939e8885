"""The paper's synthetic regime map: the benefit of a correction by drift and data density.

Item response worlds whose items drift after the backbone is frozen, K = 200 items, T = 20 time bins:

    y ~ Bernoulli(σ(η*)),   η* = aᵢ·θ_s − bᵢ(t),   bᵢ(t) = bᵢ(t−1) + N(0, Q),   bᵢ(0), θ_s ~ N(0, 1)
    η₀ = 0.8·(θ_s − bᵢ(0)) + 0.1                     the frozen backbone

1PL has aᵢ = 1, and then η₀ = 0.8·η*(t = 0) + 0.1; 2PL has aᵢ ~ N(1, 0.3²), clipped to 0.2 and 3, which the
backbone ignores. The true bias of an item is β(i, t) = bᵢ(0) − bᵢ(t). Every item has ``obs`` observations in
every bin. Bins 0-11 are train (the backbone is given, so their rows are not drawn), 12-15 calibration, 16-19
test.

Offsets are estimated around Platt's line, because the backbone's scale and shift are wrong: cells of (item,
bin) give pseudo-observations z, W, smoothed over all T bins with P₀ = 1. The static correction has q = 0
(Eq. 5), the tracking one the true q = Q, an upper bound for tracking; then the link is fitted with these
offsets. Test bins use the last level of the walk. Panels: (a) AUC of the static correction minus Platt's,
(b) AUC of the tracking correction minus the static one's, (c) mean squared error of the tracked offsets
against β(i, t) in the calibration bins. The paper shows the map for 1PL.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from slc_ops.evidence.auc import auc
from slc_ops.methods.fitting.calibration import Calibration, ItemOffsets
from slc_ops.methods.fitting.link import FittedLink, fit_link
from slc_ops.methods.slc_t import pseudo_observations
from slc_ops.numerics.kernels import Floats, Sums, sigmoid
from slc_ops.numerics.smoother import smooth
from slc_ops.rows.interactions import InteractionLog

ITEMS, BINS, STUDENTS, SEEDS = 200, 20, 1000, 5
CALIBRATION, TEST = slice(12, 16), slice(16, 20)
SCALE, SHIFT = 0.8, 0.1
PRIOR_VAR = 1.0
DRIFTS = (0.0, 0.005, 0.02, 0.05, 0.1, 0.2)
DENSITIES = (5, 10, 30, 100, 300)
EDGES = np.arange(-1.0, BINS)  # the event time of a row is its bin number
Model = Literal["1pl", "2pl"]


@dataclass(frozen=True)
class World:
    """Rows of the calibration and test bins, and the true β by item and bin."""

    calibration: InteractionLog
    test: InteractionLog
    bias: Floats


def world(model: Model, drift: float, obs: int, seed: int, items: int = ITEMS) -> World:
    """Simulate one world; the same arguments give the same rows. ``obs`` counts per item and bin."""
    rng = np.random.default_rng([seed, int(drift * 1e6), obs, model == "2pl"])
    ability, difficulty = rng.normal(0, 1, STUDENTS), rng.normal(0, 1, items)
    slope = np.clip(rng.normal(1, 0.3, items), 0.2, 3.0) if model == "2pl" else np.ones(items)
    step = rng.normal(0, np.sqrt(drift), (items, BINS))
    step[:, 0] = 0.0
    bias = -np.cumsum(step, axis=1)

    def rows(bins: slice) -> InteractionLog:
        time, item = (each.ravel() for each in np.mgrid[bins, 0:items].repeat(obs, axis=2))
        student = rng.integers(0, STUDENTS, item.size)
        truth = slope[item] * ability[student] - difficulty[item] + bias[item, time]
        label = rng.random(item.size) < sigmoid(truth)
        logit = SCALE * (ability[student] - difficulty[item]) + SHIFT
        columns = {"item_id": item, "user_id": student, "event_time": time, "logit": logit}
        return InteractionLog.from_table(pa.table({**columns, "label": label.astype(np.int8)}))

    return World(rows(CALIBRATION), rows(TEST), bias)


def offsets(log: InteractionLog, link: FittedLink, q: float) -> Floats:
    """Return smoothed offsets around a link, one row per item of the log, one column per bin."""
    p = sigmoid(link.a * log.logit + link.b0)
    size = len(log.items) * BINS
    key = log.item_codes * BINS + np.asarray(log.time, np.intp)
    ones, label = np.ones(p.size), np.asarray(log.label, np.float64)
    counted = [np.bincount(key, each, size).astype(np.float64) for each in (ones, label, p, p * (1 - p))]
    sums = Sums(*counted)
    z, W = pseudo_observations(sums, BINS)
    return smooth(z, W, W > 0, q=q, P0=PRIOR_VAR)[0]


def cell(model: Model, drift: float, obs: int, seed: int, items: int = ITEMS) -> dict[str, float]:
    """Return one world's static gain, additional gain of tracking, and error of the tracked offsets."""
    made = world(model, drift, obs, seed, items)
    calibration, test = Calibration(made.calibration), made.test
    platt = fit_link(calibration)
    static, tracked = (offsets(made.calibration, platt, q) for q in (0.0, drift))
    scores = [platt.a * test.logit]  # Platt's shift does not change the order
    index = test.item_codes, np.asarray(test.time, np.intp)
    for table in (static, tracked):
        link = fit_link(calibration, ItemOffsets(table, EDGES))
        scores.append(link.a * test.logit + table[index])
    base, with_static, with_tracking = (_area(test, score) for score in scores)
    item = made.calibration.items.to_numpy()
    error = (tracked - made.bias[item])[:, CALIBRATION]
    return {
        "static_gain": with_static - base,
        "tracking_gain": with_tracking - with_static,
        "offset_mse": float(np.mean(error**2)),
    }


def regime_map(
    model: Model, *, drifts: Sequence[float] = DRIFTS, densities: Sequence[int] = DENSITIES
) -> list[dict[str, Any]]:
    """Return every cell of the map: means over the seeds with their standard errors."""
    rows = []
    for drift, obs in product(drifts, densities):
        found = [cell(model, drift, obs, seed) for seed in range(SEEDS)]
        row: dict[str, Any] = {"model": model, "q": drift, "obs_per_item_and_bin": obs, "seeds": SEEDS}
        for name in found[0]:
            values = np.array([each[name] for each in found])
            row[name] = float(values.mean())
            row[f"{name}_se"] = float(values.std(ddof=1) / np.sqrt(SEEDS))
        rows.append(row)
    return rows


def _area(test: InteractionLog, score: Floats) -> float:
    found = auc(test.label, score).value
    return float("nan") if found is None else found
