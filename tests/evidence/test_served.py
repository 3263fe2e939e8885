"""The probabilities served in the newest window: those of the champion before it, or of the frozen model."""

from dataclasses import replace

import pytest

from slc_ops.evidence.results import Champion, served_on
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
