"""A metric is one entry of a table; all code that checks, shows or stores metrics uses it."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner

from slc_ops.base.errors import SelfTestFailed
from slc_ops.base.files import read_json
from slc_ops.base.window import Window
from slc_ops.cli import app
from slc_ops.demo.simulate import simulate
from slc_ops.evidence.auc import auc
from slc_ops.evidence.backtest import Backtest, check_ranges
from slc_ops.evidence.evaluation import evaluate
from slc_ops.evidence.metrics import METRICS, NOT_COMPUTED, Metric, Metrics, metrics_of
from slc_ops.evidence.scoring import Score
from slc_ops.evidence.slices import by_group
from slc_ops.evidence.uncertainty import PairedDifference, paired_difference
from slc_ops.methods import fit
from slc_ops.refresh import pipeline
from slc_ops.refresh.gate import evidence_text, propose
from slc_ops.registry import Registry
from slc_ops.reporting import write_report
from slc_ops.rows import interactions
from slc_ops.rows.interactions import InteractionLog
from slc_ops.settings.environment import Installation
from tests.evidence.worlds import rows

MAE = Metric("mae", "MAE", (0.0, 1.0), -1, per_row=lambda y, p: np.abs(y - p), paired=True, headline=True)


@pytest.fixture
def with_mae(monkeypatch):
    monkeypatch.setitem(METRICS, MAE.name, MAE)


@pytest.fixture
def columns():
    rng = np.random.default_rng(0)
    p = rng.random(3000)
    return (rng.random(3000) < p).astype(float), p, rng.integers(0, 300, 3000), rng.random(3000)


@pytest.fixture
def files(tmp_path):
    for name, number in (("calibration", 0), ("test", 1)):
        pq.write_table(rows(number, n=2000, bias_sd=0.8), tmp_path / f"{name}.parquet")
    return tmp_path / "calibration.parquet", tmp_path / "test.parquet"


def run(*arguments):
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_the_mean_of_the_row_contributions(with_mae, columns, weighted):
    label, p, _, weight = columns
    found = metrics_of(label, p, weight if weighted else None)
    assert found["mae"] == pytest.approx(np.average(np.abs(label - p), weights=weight if weighted else None))
    assert found.as_dict()["mae"] == found["mae"]


def test_compare_shows_it_in_json_and_in_the_table(with_mae, files):
    asked = ["compare", "--calibration", files[0], "--test", files[1], "--methods", "base,slc"]
    found = json.loads(run(*asked, "--json", "-"))["methods"]["slc"]
    test = InteractionLog.read(files[1])
    p = fit("slc", InteractionLog.read(files[0])).apply(test)
    assert found["mae"] == pytest.approx(np.mean(np.abs(test.label - p)), abs=1e-12)
    text = run(*asked)
    assert "MAE" in text
    assert f"{found['mae']:.4f}" in text


def test_a_sweep_shows_it_with_its_difference(with_mae, files):
    text = run("sweep", "prior-variance", "--calibration", files[0], "--test", files[1], "--values", "1")
    assert "MAE" in text
    assert "MAE −" in text


def test_the_self_test_checks_its_range(with_mae, columns):
    label, p, *_ = columns
    found = metrics_of(label, p)
    check_ranges(Score("slc", "confirm-x", found))
    broken = Metrics(found.n, found.weight, found.positive_rate, {**found.values, "mae": 1.5})
    with pytest.raises(SelfTestFailed, match=r"mae of slc on fold confirm-x is 1.5, outside \[0, 1\]"):
        check_ranges(Score("slc", "confirm-x", broken))


def test_it_gets_an_interval_that_contains_the_difference(with_mae, columns):
    label, p, user, weight = columns
    other = np.full(p.size, 0.5)
    found = paired_difference(label, p, other, user, weight=weight)["mae"]
    expected = np.average(np.abs(label - p) - np.abs(label - other), weights=weight)
    assert found.estimate == pytest.approx(expected, abs=1e-12)
    assert found.low < found.estimate < found.high < 0


def test_the_other_intervals_do_not_change(columns, monkeypatch):
    label, p, user, _ = columns
    before = paired_difference(label, p, np.full(p.size, 0.5), user)
    monkeypatch.setitem(METRICS, MAE.name, MAE)
    after = paired_difference(label, p, np.full(p.size, 0.5), user)
    for name in ("auc", "nll"):
        assert after[name].low == pytest.approx(before[name].low, abs=1e-12)


def test_it_is_the_same_in_memory_and_streaming(with_mae, files, monkeypatch):
    calibration, test = (InteractionLog.read(path) for path in files)
    parameters, slicings = fit("slc", calibration), [by_group(test)]
    here = evaluate(parameters, test, slicings)
    monkeypatch.setattr(interactions, "IN_MEMORY_ROWS", 0)
    there = evaluate(parameters, test, slicings)
    assert there.metrics["mae"] == pytest.approx(here.metrics["mae"], abs=1e-12)
    for some, others in zip(there.parts, here.parts, strict=True):
        assert some.metrics["mae"] == pytest.approx(others.metrics["mae"], abs=1e-12)
    for name, sums in there.users_by_slice().items():
        np.testing.assert_allclose(sums.means["mae"], here.users_by_slice()[name].means["mae"])


def test_json_without_the_new_metric_is_still_read(columns, monkeypatch):
    label, p, user, _ = columns
    metrics = json.loads(json.dumps(metrics_of(label, p).as_dict()))
    difference = json.loads(json.dumps(paired_difference(label, p, p, user).as_dict()))
    monkeypatch.setitem(METRICS, MAE.name, MAE)
    found = Metrics.from_dict(metrics)
    assert (found["mae"], found.reasons["mae"]) == (None, NOT_COMPUTED)
    assert found.auc == auc(label, p).value
    assert PairedDifference.from_dict(difference)["mae"].text() == NOT_COMPUTED


@pytest.mark.parametrize("wrong", [{}, {"per_row": abs, "formula": abs}, {"formula": abs, "paired": True}])
def test_a_metric_that_cannot_be_computed_is_refused(wrong):
    with pytest.raises(ValueError, match="the metric odd"):
        Metric("odd", "odd", (0.0, 1.0), 1, **wrong)


@pytest.mark.slow
def test_a_refresh_publishes_and_reports_it(with_mae, tmp_path: Path, monkeypatch):
    simulate(tmp_path / "lake", weeks=6, users=200, items=40, seed=11, start="2026-01-05")
    entry = {
        "source": {"kind": "lake", "path": "lake"},
        "methods": ["platt", "slc"],
        "link_windows": 3,
        "evidence_windows": 2,
        "decision": {"replicates": 100},
    }
    (tmp_path / "deployments.yaml").write_text(yaml.safe_dump({"deployments": {"school": entry}}))
    monkeypatch.setenv("SLC_OPS_HOME", str(tmp_path))
    monkeypatch.setenv("SLC_OPS_DEPLOYMENTS", str(tmp_path / "deployments.yaml"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    installation, window = Installation.from_environment(), Window.parse("2026-02-09/2026-02-16")

    plan = pipeline.refresh(installation, "school", window)

    registry = Registry.open(installation)
    version = registry.ledger.version("school", 1)
    logged = registry.client.get_run(version.run_id).data.metrics
    stored = read_json(plan.directory / "backtest.json")
    newest = Backtest.from_dict(stored)
    assert logged["mae"] == newest.newest[version.method].metrics["mae"]
    assert logged["platt_mae"] == newest.newest["platt"].metrics["mae"]
    assert logged["vs_platt.mae.high"] == newest.differences[version.method]["platt"]["mae"].high
    page = (plan.directory / "report" / "report.html").read_text()
    assert page.count(">MAE<") >= 4  # a card, two tables, the figures' own titles
    assert "Δ MAE vs Platt" in page
    assert "| AUC | NLL | MAE |" in evidence_text(plan, propose(installation, plan, "manual"))
    # The report of a refresh without the metric.
    METRICS.pop("mae")
    older = json.loads(json.dumps(newest.as_dict()).replace('"mae"', '"gone"'))
    METRICS["mae"] = MAE
    verdict = read_json(plan.directory / "verdict.json")
    again = write_report(tmp_path / "again", verdict=verdict, backtest=older)
    assert NOT_COMPUTED in again.read_text()
