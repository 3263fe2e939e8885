"""Streaming evaluation equals evaluation in memory."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from slc_ops.evidence.evaluation import evaluate, mean_log_loss, tied_logits
from slc_ops.evidence.metrics import METRICS, metrics_of
from slc_ops.evidence.slices import by_density, by_group, by_time
from slc_ops.evidence.uncertainty import Clusters, user_sums
from slc_ops.methods import METHODS, fit
from slc_ops.numerics.curves import Affine
from slc_ops.rows import interactions
from slc_ops.rows.interactions import InteractionLog
from tests.evidence.oracle import rank_sum_auc
from tests.evidence.worlds import parts_of


def log_of(seed: int, *, rows: int = 30_000, weighted: bool = False) -> InteractionLog:
    rng = np.random.default_rng(seed)
    item = rng.integers(0, 60, rows)
    logit = rng.normal(0, 1.2, rows)
    bias = np.random.default_rng(0).normal(0, 1, 60)
    columns = {
        "item_id": item,
        "user_id": rng.integers(0, 300, rows),
        "group_id": np.array(["a", "b", "c"])[rng.integers(0, 3, rows)],
        "event_time": np.arange(rows) + seed * rows,
        "label": (rng.random(rows) < 1 / (1 + np.exp(-logit - bias[item]))).astype(np.int8),
        "logit": logit,
    }
    if weighted:
        columns["weight"] = rng.integers(0, 4, rows).astype(np.float64)
    return InteractionLog.from_table(pa.table(columns))


@pytest.fixture(params=[False, True], ids=["plain", "weighted"])
def logs(request: pytest.FixtureRequest) -> tuple[InteractionLog, InteractionLog]:
    return log_of(1, weighted=request.param), log_of(2, weighted=request.param)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_the_same_metrics(
    logs: tuple[InteractionLog, InteractionLog], method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = fit(method, logs[0])
    exact = evaluate(parameters, logs[1]).metrics
    monkeypatch.setattr(interactions, "IN_MEMORY_ROWS", 0)
    one, two = (evaluate(parameters, logs[1], threads=threads).metrics for threads in (1, 2))
    assert one == two
    assert (one.n, one.weight) == (exact.n, exact.weight)
    for name in METRICS:
        assert one[name] == pytest.approx(exact[name], abs=1e-7), name
    for found, expected in zip(one.reliability, exact.reliability, strict=True):
        assert _filled(found) == pytest.approx(_filled(expected), rel=1e-12)


@pytest.mark.parametrize("method", ["base", "slc", "histogram"])
def test_both_aucs_equal_the_textbook_formula(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parameters, test = fit(method, log_of(1)), log_of(2)
    expected = rank_sum_auc(test.label, parameters.apply(test))
    assert evaluate(parameters, test).metrics.auc == pytest.approx(expected, abs=1e-14)
    monkeypatch.setattr(interactions, "IN_MEMORY_ROWS", 0)
    found = evaluate(parameters, test).metrics
    assert abs(found.auc - expected) <= found.tied / 2 + 1e-14


def test_each_row_without_a_user_counts_as_a_separate_user(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table(
        {"item_id": np.arange(500) % 7, "label": np.arange(500) % 2, "logit": np.linspace(-1, 1, 500)}
    )
    test = InteractionLog.from_table(table)
    here = evaluate(fit("base", test), test).users
    monkeypatch.setattr(interactions, "IN_MEMORY_ROWS", 0)
    there = evaluate(fit("base", test), test).users
    assert here.weight.tolist() == there.weight.tolist() == [1.0] * 500


def test_an_increasing_link_does_not_change_the_auc(
    logs: tuple[InteractionLog, InteractionLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interactions, "IN_MEMORY_ROWS", 0)
    areas = {
        evaluate(fit(method, logs[0]), logs[1]).metrics.auc for method in ("base", "platt", "temperature")
    }
    assert len(areas) == 1


@pytest.mark.parametrize("a", [2.0, 0.0, -0.5])
def test_scores_and_probabilities_give_the_same_order(a: float) -> None:
    rng = np.random.default_rng(0)
    logit, offset = rng.normal(0, 1, 500), rng.normal(0, 1, 500).round(1)
    link = Affine(a, 0.7)
    by_score = np.argsort(link.score(logit, offset, None), kind="stable")
    assert (np.diff(link.probability(logit, offset, None)[by_score]) >= -1e-15).all()


def _filled(each: dict[str, Any]) -> list[float]:
    """A bin's numbers; −1 for the means of no rows."""
    return [-1.0 if value is None else value for value in each.values()]


def test_slices_users_and_items_agree(
    logs: tuple[InteractionLog, InteractionLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters, test = fit("slc", logs[0]), logs[1]
    slicings = [by_density(*logs), by_group(test), by_time(test, None)]
    here, tied_here = (
        evaluate(parameters, test, slicings, items=True),
        tied_logits(test, evaluate(parameters, test).metrics),
    )
    monkeypatch.setattr(interactions, "IN_MEMORY_ROWS", 0)
    there = evaluate(parameters, test, slicings, items=True)
    for found, expected in zip(there.parts, here.parts, strict=True):
        assert found.key == expected.key
        assert found.metrics.n == expected.metrics.n
        assert (found.users is None) == (expected.users is None)
        if expected.metrics.n:
            assert found.metrics.auc == pytest.approx(expected.metrics.auc, abs=1e-4)
            assert found.metrics.nll == pytest.approx(expected.metrics.nll, rel=1e-12)
    found_users, expected_users = there.users_by_slice(), here.users_by_slice()
    assert list(found_users) == list(expected_users)
    for name, sums in found_users.items():
        assert sums.auc == pytest.approx(expected_users[name].auc, abs=1e-4), name
        assert sums.means["nll"] == pytest.approx(expected_users[name].means["nll"]), name
    np.testing.assert_allclose(there.items, here.items)
    assert tied_logits(test, there.metrics) == pytest.approx(tied_here, abs=2e-6)


@pytest.mark.parametrize("method", ["slc_t", "platt", "histogram", "isotonic"])  # hardly any ties, many, some
def test_a_slice_has_the_metrics_of_its_rows_alone(
    logs: tuple[InteractionLog, InteractionLog], method: str
) -> None:
    """Slices share one sorted order; the result must equal that of sorting each slice, bit for bit."""
    calibration, test = logs
    parameters, slicings = fit(method, calibration), [by_density(*logs), by_group(test), by_time(test, None)]
    found = evaluate(parameters, test, slicings)
    weight = test.weight if test.weighted else None
    probability, clusters = parameters.apply(test), Clusters.of_codes(test.user_codes, len(test.users))
    assert found.metrics == metrics_of(test.label, probability, weight)
    rows = [part.rows for slicing in slicings for part in parts_of(slicing, test)]
    for part, chosen in zip(found.parts, rows, strict=True):
        mass = None if weight is None else weight[chosen]
        assert part.metrics == metrics_of(test.label[chosen], probability[chosen], mass)
        if part.users is not None:
            alone = user_sums(
                test.label[chosen], probability[chosen], clusters.take(np.flatnonzero(chosen)), mass
            )
            for name in ("positive", "negative", "placement"):
                assert np.array_equal(getattr(part.users, name), getattr(alone, name))
            assert np.array_equal(part.users.means["nll"], alone.means["nll"])


def test_rows_without_any_weight_have_no_mean_loss() -> None:
    columns = {"item_id": ["a", "b"], "label": [0, 1], "logit": [0.1, 0.2]}
    weightless = InteractionLog.from_table(pa.table({**columns, "weight": [0.0, 0.0]}))
    parameters = fit("base", weightless)
    assert mean_log_loss(parameters, weightless) is None
    assert mean_log_loss(parameters, InteractionLog.from_table(pa.table(columns))) == pytest.approx(
        (np.log1p(np.exp(0.1)) + np.log1p(np.exp(-0.2))) / 2
    )


def test_a_slice_without_rows_has_no_metrics_and_gives_a_reason() -> None:
    test = InteractionLog.from_table(pa.table({"item_id": ["a", "b"], "label": [0, 1], "logit": [0.1, 0.2]}))
    (sparse, cold) = evaluate(fit("base", test), test, [by_density(test, test)]).parts
    assert (sparse.metrics.n, cold.metrics.n) == (2, 0)
    assert (cold.metrics.auc, cold.metrics.nll, cold.users) == (None, None, None)
    assert cold.metrics.as_dict()["reasons"]["nll"] == "there are no rows"
