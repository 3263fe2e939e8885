"""A new backbone starts from the old one's offsets where they predict its rows, and only there."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from slc_ops.base.files import read_json
from slc_ops.methods import FitOptions, fit
from slc_ops.methods.fitting.options import EarlierOffsets
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.rows.interactions import InteractionLog

ITEMS, USERS = 300, 200


def rows(rng: np.random.Generator, truth: np.ndarray, n: int, start: float = 0.0) -> InteractionLog:
    """Rows of a backbone with a bias of ``truth`` per item."""
    item, user = rng.integers(0, ITEMS, n), rng.integers(0, USERS, n)
    logit = rng.normal(0, 1.2, n)
    label = rng.random(n) < 1 / (1 + np.exp(-(1.2 * logit - 0.3 + truth[item])))
    return InteractionLog.from_table(
        pa.table(
            {
                "item_id": [f"item-{each:04d}" for each in item],
                "user_id": user,
                "event_time": start + np.sort(rng.random(n)),
                "logit": logit,
                "label": label.astype(int),
            }
        )
    )


def earlier(truth: np.ndarray) -> EarlierOffsets:
    return EarlierOffsets("gru-7", pa.array([f"item-{each:04d}" for each in range(ITEMS)]), truth)


def nll(parameters: ParameterSet, log: InteractionLog) -> float:
    p = np.clip(parameters.apply(log), 1e-6, 1 - 1e-6)
    label = np.concatenate([each.label for each in log.sample([0], log.n_rows)])
    return float(-np.mean(np.where(label == 1, np.log(p), np.log1p(-p))))


def world(seed: int) -> tuple[np.ndarray, InteractionLog, InteractionLog]:
    rng = np.random.default_rng(seed)
    truth = rng.normal(0, 0.8, ITEMS)
    return truth, rows(rng, truth, 4000), rows(rng, truth, 20000, start=1.0)


@pytest.mark.parametrize("seed", range(4))
def test_persistent_offsets_help_in_the_first_windows(seed: int) -> None:
    truth, first, later = world(seed)
    known = earlier(truth + np.random.default_rng(100 + seed).normal(0, 0.3, ITEMS))

    cold, warm = (fit("slc_eb", first, options=FitOptions(earlier=each)) for each in (None, known))

    mean = warm.provenance.prior_mean
    assert mean is not None
    assert mean.backbone_version == "gru-7"
    assert mean.gain > 0
    assert nll(warm, later) < nll(cold, later) - 0.01


def test_offsets_of_other_items_change_no_byte(tmp_path: Path) -> None:
    for seed in range(20):
        truth, first, _ = world(seed)
        known = earlier(np.random.default_rng(200 + seed).permutation(truth))
        found = fit("slc_eb", first, options=FitOptions(earlier=known))
        assert found.provenance.prior_mean is None, seed
        if seed < 2:
            for name, each in (("warm", found), ("cold", fit("slc_eb", first))):
                each.write(tmp_path / name)
            for file in ("params.json", "item.parquet", "golden.json"):
                assert (tmp_path / "warm" / file).read_bytes() == (tmp_path / "cold" / file).read_bytes()


def test_a_warm_start_is_stored_in_the_set_and_repeatable(tmp_path: Path) -> None:
    truth, first, _ = world(1)
    for name in ("one", "two"):
        fit("slc_eb", first, options=FitOptions(earlier=earlier(truth))).write(tmp_path / name)

    assert (tmp_path / "one" / "params.json").read_bytes() == (tmp_path / "two" / "params.json").read_bytes()
    stated = read_json(tmp_path / "one" / "params.json")["prior_mean"]
    found = ParameterSet.read(tmp_path / "one").provenance.prior_mean
    assert found is not None
    assert stated == {"backbone_version": "gru-7", "share": found.share, "gain": found.gain}
    assert found.sentence.startswith("Begins from 1 of the offsets of backbone gru-7: held-out NLL lower")


def test_the_warm_fit_minimises_the_likelihood_shrunk_towards_the_earlier_offsets() -> None:
    """Compared with a general-purpose minimiser on the same objective, written out here."""
    from scipy.optimize import minimize

    rng = np.random.default_rng(3)
    truth = rng.normal(0, 0.8, ITEMS)
    log = rows(rng, truth, 3000)
    known = earlier(truth)
    found = fit("slc_eb", log, options=FitOptions(earlier=known))
    assert found.provenance.prior_mean is not None
    assert found.items is not None
    part = log.sample([0], log.n_rows)[0]
    mean = found.provenance.prior_mean.share * known.of(log.items)
    variance = found.prior_var
    assert variance is not None

    def objective(point: np.ndarray) -> tuple[float, np.ndarray]:
        a, b0, c = point[0], point[1], point[2:]
        eta = a * part.logit + b0 + c[part.codes]
        residual = 1 / (1 + np.exp(-eta)) - part.label
        value = np.sum(np.logaddexp(0, eta) - part.label * eta) + np.sum((c - mean) ** 2) / (2 * variance)
        slope = np.bincount(part.codes, residual, len(c)) + (c - mean) / variance
        return float(value), np.concatenate([[residual @ part.logit, residual.sum()], slope])

    best = minimize(objective, np.concatenate([[1.0, 0.0], mean]), jac=True, method="L-BFGS-B",
                    options={"maxiter": 5000, "ftol": 1e-15, "gtol": 1e-9})  # fmt: skip
    order = np.argsort(np.array(log.items.to_pylist()))
    np.testing.assert_allclose(found.items.column("offset").to_numpy(), best.x[2:][order], atol=2e-4)
    link = found.affine()
    assert link is not None
    assert (link["a"], link["b0"]) == pytest.approx(tuple(best.x[:2]), abs=2e-4)


def test_ids_of_another_type_do_not_match_earlier_offsets() -> None:
    truth, first, _ = world(1)
    numbers = replace(earlier(truth), items=pa.array(range(ITEMS)))
    assert fit("slc_eb", first, options=FitOptions(earlier=numbers)).provenance.prior_mean is None
