"""Both decisions in plain words, from the JSON of real verdicts."""

import json

import pytest

from slc_ops.evidence.renewal import Lengths, Renewal
from slc_ops.evidence.verdict import method_in_words, parameters_in_words
from slc_ops.settings.blocks import Decision
from tests.evidence.worlds import backtest, decide, write_weeks


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    root = tmp_path_factory.mktemp("words")
    weeks = write_weeks(root, 5, n=1500, bias_sd=0.9, seed=3, items=30)
    return backtest(weeks, methods=["slc_eb"], link_windows=2, offset_windows=2, evidence_windows=3)


def said(found, renewal):
    """The sentences from the JSON, as a page reads it."""
    return json.loads(json.dumps(decide(found, None, Decision(), renewal=renewal).as_dict()))


def renewal(accepted):
    return Renewal(accepted, False, Lengths(0.3, 0.1), Lengths(0.25, 0.5), "a sentence")


def test_a_change_names_both_methods_the_mean_its_interval_and_the_windows(found):
    verdict = said(found, renewal(True))
    text = method_in_words(verdict)
    assert text.startswith(
        "slc_eb should take over from the frozen model. Over 3 windows the NLL differed by −"
    )
    assert method_in_words(verdict, happened=True).startswith("slc_eb took over from the frozen model. Over")
    mean = verdict["decision"]["statistics"]["slc_eb"]["platt_eb"]["mean"]
    assert f"−{abs(mean):.4f} from platt_eb (95% interval −" in text
    assert "from the frozen model (95% interval" in text
    assert "The next window's difference from platt_eb is expected within" in text


def test_a_held_change_names_the_method_that_keeps_serving(found):
    text = method_in_words(said(found, renewal(False)))
    assert text.startswith("The frozen model keeps serving; the change to slc_eb is on hold.")


def test_invalid_parameters_are_reported_in_the_words_of_the_check(found):
    broken = Renewal(False, False, None, None, "the slope of slc_eb is -0.100")
    assert parameters_in_words(said(found, broken)) == "The slope of slc_eb is -0.100."


def test_a_verdict_of_an_older_release_gives_no_sentences():
    assert method_in_words({"verdict": "hold"}) == parameters_in_words({"verdict": "hold"}) == ""
