"""The verdict: what is chosen where, what is confirmed where, and what is never promoted."""

import json
from dataclasses import replace

import pytest

from slc_ops.evidence.backtest import Champion
from slc_ops.evidence.detectability import detectability
from slc_ops.evidence.reasons import against_champion, against_platt
from slc_ops.evidence.tuning import Grid
from slc_ops.evidence.uncertainty import Interval, PairedDifference
from slc_ops.evidence.verdict import Verdict, choose, decide
from slc_ops.methods import FitOptions, fit
from slc_ops.rows.interactions import InteractionLog
from slc_ops.settings.deployments import Decision
from tests.evidence.worlds import backtest, shuffle_labels, week, write_weeks

SHAPE = {"calibration_weeks": 2, "folds": 3}
RULES = Decision()


def codes(verdict):
    return {reason["code"]: reason["says"] for reason in verdict.reasons}


@pytest.fixture(scope="module")
def biased(tmp_path_factory):
    return write_weeks(tmp_path_factory.mktemp("biased"), 5, bias_sd=0.8, seed=2)


@pytest.fixture(scope="module")
def result(biased):
    return backtest(biased, methods=["slc"], **SHAPE)


def test_item_bias_is_worth_a_promotion(result):
    verdict = decide(result, None, RULES)
    assert (verdict.verdict, verdict.method) == ("promote", "slc")
    assert codes(verdict)["platt_auc"] == codes(verdict)["platt_nll"] == "pass"
    assert verdict.sentence.startswith(
        "Promote slc: on the newest window 2026-02-02/2026-02-09 it ranks better"
    )


@pytest.mark.parametrize("seed", range(6))
def test_without_item_bias_nothing_is_promoted(tmp_path, seed):
    # A hundred seeds are benchmarks/evidence_verdicts.py.
    weeks = write_weeks(tmp_path, 4, seed=seed, n=2000)
    verdict = decide(backtest(weeks, methods=["slc", "slc_eb"], calibration_weeks=2, folds=2), None, RULES)
    assert verdict.verdict != "promote"


def test_the_newest_window_confirms_but_never_chooses(tmp_path):
    weeks = write_weeks(tmp_path, 5, bias_sd=0.8, seed=3)
    shape = {"methods": ["slc", "ridge", "slc_t"], "grid": Grid((0.1, 10.0), (5,)), **SHAPE}
    honest = decide(backtest(weeks, **shape), None, RULES)
    shuffle_labels(weeks[-1][1])
    corrupted = decide(backtest(weeks, **shape), None, RULES)
    assert honest.verdict == "promote"
    assert corrupted.verdict != "promote"
    assert corrupted.choice == honest.choice
    assert (corrupted.method, corrupted.options) == (honest.method, honest.options)


def test_too_little_history_falls_back_to_a_hold_out_and_says_so(tmp_path):
    weeks = write_weeks(tmp_path, 3, bias_sd=0.8, seed=4)
    shape = {"methods": ["slc"], "calibration_weeks": 2, "folds": 1}
    verdict = decide(backtest(weeks, **shape), None, RULES)
    assert verdict.choice["source"] == "forward_hold_out"
    assert verdict.verdict == "promote"
    assert any("forward hold-out" in note for note in verdict.notes)
    assert codes(verdict)["choice_by_hold_out"] == "note"
    shuffle_labels(weeks[-1][1])
    corrupted = decide(backtest(weeks, **shape), None, RULES)
    assert (corrupted.choice, corrupted.verdict == "promote") == (verdict.choice, False)


def test_a_single_earlier_week_is_enough_to_choose_on(tmp_path):
    weeks = write_weeks(tmp_path, 2, bias_sd=0.8, seed=5, n=4000)
    verdict = decide(backtest(weeks, methods=["slc"], calibration_weeks=4, folds=4), None, RULES)
    assert verdict.choice["source"] == "forward_hold_out"
    assert verdict.method == "slc"


def test_tracking_may_win_only_where_drift_can_be_seen(biased):
    both = backtest(biased, methods=["slc_t"], **SHAPE)
    seen = detectability(InteractionLog.read([path for _, path in biased[2:4]]))
    assert not seen.viable
    verdict = decide(both, seen, RULES)
    assert verdict.method != "slc_t"
    why = {row["method"]: row["why_not"] for row in verdict.choice["table"]}
    assert why["slc_t"] == "temporal tracking is not viable on these data"
    assert verdict.temporal_tracking == "not viable"
    assert decide(both, replace(seen, temporal_tracking="viable"), RULES).method == "slc_t"


def test_close_losses_are_told_apart_by_the_auc(result):
    means = result.older_means()
    gap = means["platt"]["nll"] - means["slc"]["nll"]
    assert choose(result, None, Decision(nll_tie=gap + 1)).method == "slc"
    assert gap > 0


def test_without_a_champion_a_score_only_winner_is_held(tmp_path):
    weeks = write_weeks(tmp_path, 5, scale=0.5, shift=0.5, seed=6)
    verdict = decide(backtest(weeks, methods=["naive"], **SHAPE), None, RULES)
    assert verdict.verdict == "hold"
    assert codes(verdict)["no_item_correction"] == "hold"


def test_a_fresh_fit_may_follow_a_champion_that_is_as_good(biased, tmp_path):
    # Last week's champion learned from the weeks that this week's candidate is judged with.
    learned = InteractionLog.read([path for _, path in biased[2:4]])
    champion = fit("slc", learned).with_provenance(window=week(3))
    verdict = decide(
        backtest(biased, methods=["slc"], champion=champion, directory=tmp_path, **SHAPE), None, RULES
    )
    assert verdict.verdict == "promote"
    assert codes(verdict)["champion_nll"] == "pass"
    assert "no worse than the champion's within the margin" in verdict.sentence


def test_a_fresh_fit_replaces_a_champion_that_has_grown_old(biased, tmp_path):
    champion = fit("slc", InteractionLog.read(biased[0][1]), options=FitOptions(prior_var=0.01))
    result = backtest(biased, methods=["slc"], champion=champion, directory=tmp_path, **SHAPE)
    verdict = decide(result, None, RULES)
    assert verdict.verdict == "promote"
    assert "better than the champion" in verdict.sentence


def test_a_clearly_better_champion_stays(tmp_path):
    weeks = write_weeks(tmp_path / "weeks", 8, bias_sd=0.8, seed=7, items=400, n=4000)
    learned = InteractionLog.read([path for _, path in weeks[:6]])
    champion = fit("slc", learned).with_provenance(window=week(5))
    result = backtest(weeks[5:], methods=["slc"], calibration_weeks=1, folds=2, champion=champion)
    verdict = decide(result, None, RULES)
    assert verdict.verdict == "reject"
    assert codes(verdict)["champion_nll"] == "reject"
    assert "its probabilities are worse than the champion" in verdict.sentence


@pytest.mark.parametrize("status", ["unreadable", "other_backbone", "saw_window"])
def test_a_champion_that_cannot_be_compared_means_hold(result, status):
    verdict = decide(replace(result, champion=Champion(status, "it cannot be compared")), None, RULES)
    assert verdict.verdict == "hold"
    assert codes(verdict)[f"champion_{status}"] == "hold"
    assert "it cannot be compared" in verdict.sentence


def test_few_users_cannot_carry_a_promotion(tmp_path):
    weeks = write_weeks(tmp_path, 5, bias_sd=0.8, users=12, seed=8)
    verdict = decide(backtest(weeks, methods=["slc"], **SHAPE), None, RULES)
    assert verdict.verdict == "hold"
    assert codes(verdict)["too_few_users"] == "hold"


def test_a_threshold_of_the_deployment_is_respected(result):
    gain = result.differences["slc"]["platt"].auc
    demanding = Decision(min_auc_gain=(gain.low + gain.high) / 2)
    verdict = decide(result, None, demanding)
    assert verdict.verdict == "hold"
    assert codes(verdict)["platt_auc"] == "hold"


def test_no_numbers_on_the_older_folds_mean_no_choice(result):
    nothing = replace(result, skipped={fold.key: "one class" for fold in result.plan.choosing})
    verdict = decide(nothing, None, RULES)
    assert (verdict.verdict, verdict.method) == ("hold", None)
    assert codes(verdict) == {"no_choice": "hold"}
    assert any("one class" in note for note in verdict.notes)


def test_a_method_that_fails_on_the_newest_window_is_held(result):
    newest = result.plan.confirming.key
    broken = {
        **result.scores[newest],
        "slc": replace(result.newest["slc"], metrics=None, error="no convergence"),
    }
    verdict = decide(replace(result, scores={**result.scores, newest: broken}), None, RULES)
    assert codes(verdict) == {"fit_failed": "hold"}
    assert "no convergence" in verdict.sentence


def test_a_backbone_that_ranks_backwards_is_held(tmp_path):
    weeks = write_weeks(tmp_path, 5, bias_sd=0.8, scale=-1.0, seed=9)
    verdict = decide(backtest(weeks, methods=["slc_eb"], **SHAPE), None, RULES)
    assert verdict.verdict == "hold"
    assert codes(verdict)["platt_slope"] == "hold"
    assert "check its logits" in verdict.sentence


def test_a_slice_that_loses_is_noted_and_blocks_where_the_deployment_says(result):
    worse = PairedDifference({"auc": Interval(None), "nll": Interval(0.05, 0.03, 0.07)}, 500, 100, 0.95)
    bad = replace(result, slice_differences={"slc": {"group:skill-1": worse}})
    noted = decide(bad, None, RULES)
    assert (noted.verdict, codes(noted)["slice:group:skill-1"]) == ("promote", "note")
    blocked = decide(bad, None, Decision(max_slice_nll_loss=0.02))
    assert (blocked.verdict, codes(blocked)["slice:group:skill-1"]) == ("hold", "hold")


def test_a_verdict_survives_json(result):
    verdict = decide(result, None, RULES)
    assert Verdict.from_dict(json.loads(json.dumps(verdict.as_dict(), allow_nan=False))) == verdict


def difference(auc, nll, users=100):
    return PairedDifference({"auc": Interval(*auc), "nll": Interval(*nll)}, 1000, users, 0.95)


@pytest.mark.parametrize(
    ("auc", "nll", "says"),
    [
        ((0.02, 0.01, 0.03), (-0.02, -0.03, -0.01), ["pass", "pass"]),
        ((0.02, -0.01, 0.03), (-0.02, -0.03, -0.01), ["hold", "pass"]),
        ((0.02, 0.01, 0.03), (-0.02, -0.03, 0.01), ["pass", "hold"]),
        ((0.02, 0.01, 0.03), (0.02, 0.01, 0.03), ["pass", "reject"]),
        ((-0.02, -0.03, -0.01), (-0.02, -0.03, -0.01), ["reject", "pass"]),
        ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), ["hold", "hold"]),
        ((0.02, None, None, "few users"), (-0.02, None, None, "few users"), ["hold", "hold"]),
    ],
)
def test_platt_must_be_beaten_by_the_whole_interval(auc, nll, says):
    assert [reason.says for reason in against_platt(difference(auc, nll), RULES)] == says


@pytest.mark.parametrize(
    ("auc", "nll", "says"),
    [
        ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), ["pass", "pass"]),  # the same parameters again
        ((0.0, -0.0005, 0.0005), (0.0, -0.0005, 0.0005), ["pass", "pass"]),
        ((0.0, -0.005, 0.005), (0.0, -0.005, 0.005), ["hold", "hold"]),
        ((-0.02, -0.03, -0.01), (0.02, 0.01, 0.03), ["reject", "reject"]),
    ],
)
def test_the_champion_must_not_be_missed_by_more_than_the_margins(auc, nll, says):
    scored = Champion("scored", "")
    assert [reason.says for reason in against_champion(scored, difference(auc, nll), RULES, False)] == says


def test_a_score_only_candidate_must_beat_the_champion_outright():
    scored = Champion("scored", "")
    same = against_champion(scored, difference((0, 0, 0), (0.0, 0.0, 0.0)), RULES, True)
    better = against_champion(scored, difference((0, 0, 0), (-0.02, -0.03, -0.01)), RULES, True)
    assert [reason.says for reason in same + better] == ["hold", "pass"]
