"""The verdict with both decisions, from real fits on simulated worlds with a known truth."""

import json
from dataclasses import replace

import pytest

from slc_ops.evidence.detectability import detectability
from slc_ops.evidence.renewal import Lengths, Renewal
from slc_ops.evidence.results import Champion
from slc_ops.evidence.uncertainty import Interval, PairedDifference
from slc_ops.evidence.verdict import Verdict, decide_on, give_verdict
from slc_ops.rows.interactions import InteractionLog
from slc_ops.settings.blocks import Decision
from tests.evidence.worlds import backtest, shuffle_labels, write_weeks

SHAPE = {"link_windows": 2, "evidence_windows": 3}
RULES = Decision()
FINE = Renewal(True, False, None, None, "slc moved as usual")
TOO_FAR = Renewal(False, False, Lengths(2.0, 0.1), Lengths(0.3, 0.3), "slc moved too far")


def verdict_of(result, seen=None, renewal=FINE, rules=RULES):
    return give_verdict(result, decide_on(result, seen, rules), renewal, seen, rules)


def served_by(result, method, status="scored"):
    return replace(result, champion=Champion(status, "as a test says", "7", method, "digest"))


def codes(verdict):
    return {reason["code"]: reason["effect"] for reason in verdict.reasons}


@pytest.fixture(scope="module")
def biased(tmp_path_factory):
    return write_weeks(tmp_path_factory.mktemp("biased"), 5, bias_sd=0.8, seed=2)


@pytest.fixture(scope="module")
def result(biased):
    return backtest(biased, methods=["slc"], **SHAPE)


def test_item_bias_leads_to_a_change_of_method(result):
    verdict = verdict_of(result)
    assert (verdict.verdict, verdict.kind, verdict.method) == ("promote", "change", "slc")
    assert verdict.sentence.startswith(
        "Promote slc after 2026-02-02/2026-02-09: over 3 windows slc was better"
    )
    assert verdict.decision["current"] == "base"
    assert len(verdict.decision["entries"]) == 3


def test_the_serving_method_is_renewed(result):
    verdict = verdict_of(served_by(result, "slc"))
    assert (verdict.verdict, verdict.kind, verdict.method) == ("promote", "renewal", "slc")
    assert verdict.sentence == "Renew slc with 2026-02-02/2026-02-09; the method stays."


@pytest.mark.parametrize("current", ["slc", "platt_eb"])
def test_parameters_that_moved_too_far_are_held_with_a_reason(result, current):
    verdict = verdict_of(served_by(result, current), renewal=TOO_FAR)
    assert (verdict.verdict, verdict.method) == ("hold", "slc")
    assert "slc moved too far" in verdict.sentence
    assert verdict.renewal["limit"] == {"link": 0.3, "offsets": 0.3}


def test_without_item_bias_no_method_beyond_platt_eb_serves(tmp_path):
    for seed in range(3):
        weeks = write_weeks(tmp_path / str(seed), 5, seed=seed, n=2000)
        found = backtest(weeks, methods=["slc_eb"], **SHAPE)
        assert verdict_of(found).method in (None, "platt_eb")


def test_a_corrupted_newest_window_changes_only_its_own_entry(tmp_path):
    weeks = write_weeks(tmp_path, 6, bias_sd=0.8, seed=3)
    shape = {"methods": ["slc", "slc_eb"], "link_windows": 2, "offset_windows": 3, "evidence_windows": 4}
    honest = backtest(weeks, **shape)
    shuffle_labels(weeks[-1][1])
    corrupted = backtest(weeks, **shape)
    assert corrupted.entries[:-1] == honest.entries[:-1]
    assert corrupted.entries[-1] != honest.entries[-1]
    for fold in honest.plan.folds[:-1]:
        ours, theirs = honest.scores[fold.key], corrupted.scores[fold.key]
        assert {m: s.metrics for m, s in ours.items()} == {m: s.metrics for m, s in theirs.items()}
    # The fits behind the newest entry do not use it either: their options and slopes are unchanged.
    for method in honest.methods:
        assert corrupted.newest[method].slope == honest.newest[method].slope
        assert corrupted.newest[method].options == honest.newest[method].options


def test_tracking_may_serve_only_where_drift_is_detectable(biased):
    both = backtest(biased, methods=["slc_t"], **SHAPE)
    seen = detectability(InteractionLog.read([path for _, path in biased[2:4]]))
    assert not seen.viable
    verdict = verdict_of(both, seen)
    assert verdict.method != "slc_t"
    assert codes(verdict)["may_not:slc_t"] == "note"
    assert verdict.temporal_tracking == "not viable"
    assert verdict_of(both, replace(seen, temporal_tracking="viable")).method == "slc_t"


def test_a_champion_of_another_backbone_counts_as_none(result):
    verdict = verdict_of(served_by(result, "slc", "other_backbone"))
    assert (verdict.kind, verdict.decision["current"]) == ("change", "base")
    assert codes(verdict)["champion_other_backbone"] == "note"


def test_an_unreadable_champion_is_renewed(result):
    verdict = verdict_of(served_by(result, "slc", "unreadable"))
    assert (verdict.verdict, verdict.kind) == ("promote", "renewal")
    assert codes(verdict)["champion_unreadable"] == "note"


def test_the_champions_own_window_causes_no_change(result):
    verdict = verdict_of(served_by(result, "slc", "saw_window"))
    assert verdict.verdict == "hold"
    assert "as a test says" in verdict.sentence


def test_the_champion_retires_if_platt_eb_is_clearly_worse_than_the_frozen_model(result):
    worse = [
        replace(
            entry, against={"platt_eb": {"base": replace(entry.difference("platt", "base"), d=0.05, se=1e-5)}}
        )
        for entry in result.entries
    ]
    verdict = verdict_of(served_by(replace(result, entries=tuple(worse)), "platt_eb"), renewal=None)
    assert (verdict.verdict, verdict.kind, verdict.method) == ("reject", "retire", None)
    assert verdict.sentence.startswith("Retire platt_eb after")


def test_a_losing_slice_is_noted_and_blocks_only_if_configured(result):
    worse = PairedDifference({"auc": Interval(None), "nll": Interval(0.05, 0.03, 0.07)}, 500, 100, 0.95)
    bad = replace(result, slice_differences={"slc": {"group:skill-1": worse}})
    noted = verdict_of(bad)
    assert (noted.verdict, codes(noted)["slice:group:skill-1"]) == ("promote", "note")
    blocked = verdict_of(bad, rules=Decision(max_slice_nll_loss=0.02))
    assert (blocked.verdict, codes(blocked)["slice:group:skill-1"]) == ("hold", "hold")


@pytest.mark.parametrize("nll", [Interval(0.05, 0.0, 0.1), Interval(0.05, -0.01, 0.07), Interval(0.05)])
def test_a_slice_that_may_be_as_good_as_platts_is_no_reason(result, nll):
    unclear = PairedDifference({"auc": Interval(None), "nll": nll}, 500, 100, 0.95)
    verdict = verdict_of(replace(result, slice_differences={"slc": {"group:skill-1": unclear}}))
    assert verdict.method == "slc"
    assert "slice:group:skill-1" not in codes(verdict)


def test_slices_are_no_reason_against_a_method_without_items(result):
    worse = PairedDifference({"auc": Interval(None), "nll": Interval(0.05, 0.03, 0.07)}, 500, 100, 0.95)
    bad = replace(result, listed=("platt_eb",), slice_differences={"platt_eb": {"group:skill-1": worse}})
    verdict = verdict_of(served_by(bad, "platt_eb"))
    assert verdict.method == "platt_eb"
    assert "slice:group:skill-1" not in codes(verdict)


def test_a_verdict_round_trips_through_json(result):
    verdict = verdict_of(result)
    assert Verdict.from_dict(json.loads(json.dumps(verdict.as_dict(), allow_nan=False))) == verdict
