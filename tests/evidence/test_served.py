"""The probabilities served in the newest window: those of the champion before it, or of the frozen model."""

from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slc_ops.evidence.results import Champion, _turned, item_gains, served_on
from slc_ops.evidence.uncertainty import Interval
from slc_ops.methods import fit
from slc_ops.rows.interactions import InteractionLog
from tests.evidence.worlds import backtest, week, write_weeks


@pytest.fixture(scope="module")
def weeks(tmp_path_factory):
    root = tmp_path_factory.mktemp("served")
    return write_weeks(root, 4, n=1500, bias_sd=0.9, seed=3, items=30)


def found(weeks, champion=None):
    return backtest(
        weeks, methods=["slc_eb"], link_windows=2, offset_windows=2, evidence_windows=2, champion=champion
    )


def test_without_a_champion_the_frozen_model_served(weeks):
    result = found(weeks)
    served = served_on(result)
    assert (served.method, served.version, served.window) == ("base", None, week(3))
    assert served.frozen["nll"].estimate == 0
    entry = result.entries[-1]
    assert served.platt["nll"].estimate == pytest.approx(entry.difference("base", "platt").d)


def test_a_champion_is_scored_with_the_parameters_that_served(weeks):
    champion = fit("slc", InteractionLog.read(weeks[0][1])).with_provenance(window=week(0))
    result = found(weeks, champion)
    served = served_on(result)
    own, platt = result.newest["champion"].metrics, result.newest["platt"].metrics
    assert served.method == "slc"
    assert served.metrics["nll"] == own["nll"]
    assert served.platt["nll"].estimate == pytest.approx(own["nll"] - platt["nll"])
    assert served.platt["nll"].low < served.platt["nll"].estimate < served.platt["nll"].high
    assert served.as_dict()["vs_base"]["auc"]["estimate"] == pytest.approx(
        own["auc"] - result.newest["base"].metrics["auc"]
    )


def test_a_champion_that_could_not_be_scored_gives_no_served_score(weeks):
    result = found(weeks)
    for status in ("unreadable", "saw_window"):
        assert served_on(replace(result, champion=Champion(status, "why", "3", "slc"))) is None
    other = served_on(replace(result, champion=Champion("other_backbone", "why", "3", "slc")))
    assert other.method == "base"  # it does not apply to this backbone


def test_a_turned_difference_has_the_opposite_sign_and_exchanged_bounds():
    assert _turned(Interval(0.3, 0.1, 0.4)) == Interval(-0.3, -0.4, -0.1)
    assert _turned(Interval(0.3, None, None, "few users")) == Interval(-0.3, None, None, "few users")
    assert _turned(Interval(None, reason="one class")) == Interval(None, reason="one class")


def test_the_items_with_the_largest_gain_and_loss_are_named_in_order(tmp_path):
    items, n = ["a", "b", "c", "d", "e", "f"], [4.0, 2.0, 2.5, 8.0, 1.0, 1.0]
    before, after = [5.0, 1.0, 3.0, 2.0, 1.0, 1.0], [1.0, 2.0, 2.0, 4.0, 1.0, 4.0]
    for name, loss, prediction in (("before", before, 1.0), ("after", after, 0.5)):
        columns = {"item_id": items, "n": n, "label": [1.0] * 6, "prediction": [prediction] * 6, "loss": loss}
        pq.write_table(pa.table(columns), tmp_path / name)
    found = item_gains(tmp_path / "before", tmp_path / "after", shown=2)
    assert [(each["item_id"], each["gain"]) for each in found["best"]] == [("a", 4.0), ("c", 1.0)]
    assert [(each["item_id"], each["gain"]) for each in found["worst"]] == [("f", -3.0), ("d", -2.0)]
    first = {"item_id": "a", "n": 4, "observed": 0.25, "before": 0.25, "after": 0.125, "gain": 4.0}
    assert found["best"][0] == first
    assert [each["n"] for each in found["best"]] == [4, 2.5]
