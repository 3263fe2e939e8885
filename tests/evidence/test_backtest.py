"""The rolling-origin backtest on simulated worlds with a known truth."""

import json
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slc_ops.base.errors import InputError
from slc_ops.base.methods import ladder
from slc_ops.evidence.backtest import Backtest, assemble, compare_champion
from slc_ops.evidence.metrics import metrics_of
from slc_ops.evidence.scoring import score_fold
from slc_ops.evidence.series import statistic
from slc_ops.methods import FitOptions, fit
from slc_ops.refresh.window_rules import Reach, plan_folds
from slc_ops.rows.interactions import InteractionLog
from slc_ops.settings.blocks import Decision
from tests.evidence.worlds import backtest, week, write_weeks

SHAPE = {"link_windows": 2, "evidence_windows": 3}
REACH = Reach(link=2, evidence=3)


@pytest.fixture(scope="module")
def weeks(tmp_path_factory):
    return write_weeks(tmp_path_factory.mktemp("weeks"), 5, bias_sd=0.8, seed=1)


@pytest.fixture(scope="module")
def scored(weeks, tmp_path_factory):
    directory = tmp_path_factory.mktemp("scores")
    return backtest(weeks, methods=["slc"], directory=directory, **SHAPE), directory


def test_each_number_equals_a_manual_fit_and_score(weeks, scored):
    result, _ = scored
    files = dict(weeks)
    for number in (2, 3, 4):
        calibration = InteractionLog.read([files[week(number - 2)], files[week(number - 1)]])
        test = InteractionLog.read(files[week(number)])
        by_hand = metrics_of(test.label, fit("slc", calibration).apply(test))
        found = result.scores[week(number).key]["slc"].metrics
        assert (found.auc, found.nll, found["ece"]) == (by_hand.auc, by_hand.nll, by_hand["ece"])


def test_the_mean_is_over_all_windows(scored):
    result, _ = scored
    every = [result.scores[fold.key]["slc"].metrics.nll for fold in result.plan.folds]
    assert len(every) == 3
    assert result.means()["slc"]["nll"] == pytest.approx(np.mean(every))


def test_the_series_has_an_entry_for_every_window(scored):
    result, _ = scored
    assert [entry.window for entry in result.entries] == [week(n) for n in (2, 3, 4)]
    for entry, fold in zip(result.entries, result.plan.folds, strict=True):
        scores = result.scores[fold.key]
        assert entry.nll["slc"] == pytest.approx(scores["slc"].metrics.nll)
        gain = scores["slc"].metrics.nll - scores["platt"].metrics.nll
        assert entry.difference("slc", "platt").d == pytest.approx(gain)


def test_the_closed_form_error_agrees_with_the_bootstrap_of_the_newest_window(scored):
    result, _ = scored
    interval = result.differences["slc"]["platt"].nll
    se = result.entries[-1].difference("slc", "platt").se
    assert (interval.high - interval.low) / (2 * 1.96) == pytest.approx(se, rel=0.1)


def test_the_references_and_platt_eb_are_always_included():
    always = ("base", "platt", "platt_eb")
    assert ladder([]) == always
    assert ladder(["slc_eb", "temperature", "base"]) == (*always, "temperature", "slc_eb")


def test_slices_and_intervals_are_of_the_newest_window(scored):
    result, _ = scored
    kinds = {part["kind"] for part in result.newest["slc"].slices}
    assert kinds == {"density", "cold_start", "time", "group"}
    assert {part["kind"] for part in result.scores[result.plan.folds[0].key]["slc"].slices} == {"time"}
    gain = result.differences["slc"]["platt"]
    assert gain.auc.low > 0
    assert gain.nll.high < 0
    assert (
        result.intervals["slc"].auc.low < result.newest["slc"].metrics.auc < result.intervals["slc"].auc.high
    )
    assert "group:skill-0" in result.slice_differences["slc"]


def test_slices_are_compared_with_platt_for_every_method_but_the_references(weeks, scored):
    found = assemble(plan_folds(weeks, REACH), ["slc"], scored[1], Decision(replicates=200))
    assert set(found.slice_differences) == {"platt_eb", "slc"}
    kinds = {part.partition(":")[0] for part in found.slice_differences["slc"]}
    assert kinds == {"density", "group"}


def test_it_round_trips_through_json_without_nan(scored):
    result, _ = scored
    text = json.dumps(result.as_dict(), allow_nan=False)
    assert Backtest.from_dict(json.loads(text)).as_dict() == result.as_dict()


def test_a_second_run_reads_the_stored_scores(weeks, scored, monkeypatch):
    result, directory = scored

    def explode(*_, **__):
        raise AssertionError("a finished score was computed again")

    monkeypatch.setattr("slc_ops.evidence.scoring.fit_prepared", explode)
    assert backtest(weeks, methods=["slc"], directory=directory, **SHAPE).as_dict() == result.as_dict()


def test_scores_computed_separately_give_the_same_result(weeks, scored, tmp_path):
    result, _ = scored
    plan = plan_folds(weeks, REACH)
    for fold in reversed(plan.folds):
        for method in ("slc", "platt_eb", "platt", "base"):
            score_fold(fold, [method], tmp_path)
    again = assemble(plan, ["slc"], tmp_path, Decision())
    assert _without_seconds(again.as_dict()) == _without_seconds(result.as_dict())


def test_a_missing_score_is_an_error(weeks, scored, tmp_path):
    _, directory = scored
    shutil.copytree(directory, tmp_path / "scores")
    plan = plan_folds(weeks, REACH)
    shutil.rmtree(tmp_path / "scores" / plan.newest.key / "slc")
    with pytest.raises(InputError, match="slc has no score on fold 2026-"):
        assemble(plan, ["slc"], tmp_path / "scores", Decision())


def test_the_champion_is_scored_on_the_same_rows(weeks, tmp_path):
    champion = fit("slc", InteractionLog.read(weeks[0][1])).with_provenance(window=week(0))
    result = backtest(weeks, methods=["slc"], champion=champion, directory=tmp_path, **SHAPE)
    test = InteractionLog.read(weeks[-1][1])
    by_hand = metrics_of(test.label, champion.apply(test))
    assert result.champion.status == "scored"
    assert result.newest["champion"].metrics.nll == by_hand.nll
    gain = result.differences["slc"]["champion"].nll.estimate
    assert gain == pytest.approx(result.newest["slc"].metrics.nll - by_hand.nll, abs=1e-12)


def test_a_champion_of_another_backbone_is_not_compared(weeks, tmp_path):
    champion = fit("slc", InteractionLog.read(weeks[0][1])).with_provenance(backbone_version="backbone-0")
    found = compare_champion(plan_folds(weeks, REACH), champion, tmp_path)
    assert found.status == "other_backbone"
    assert "fitted for backbone backbone-0, the newest window holds backbone-1" in found.reason


def test_a_champion_is_not_scored_on_its_own_calibration_rows(weeks, tmp_path):
    champion = fit("slc", InteractionLog.read(weeks[-1][1])).with_provenance(window=week(4))
    found = compare_champion(plan_folds(weeks, REACH), champion, tmp_path)
    assert found.status == "saw_window"


def test_a_small_window_is_scored_with_a_small_weight(tmp_path):
    files = write_weeks(tmp_path / "weeks", 5, bias_sd=0.8)
    for number in (2, 4):
        path = files[number][1]
        pq.write_table(pq.read_table(path).slice(0, 60), path)
    result = backtest(files, methods=["slc"], directory=tmp_path / "scores", **SHAPE)
    assert [entry.rows for entry in result.entries] == [60, 3000, 60]
    whole = result.entries[1].difference("slc", "platt").d
    assert statistic(result.entries, "slc", "platt").mean == pytest.approx(whole, abs=0.02)


def test_one_class_in_the_calibration_weeks_gives_a_reason_instead_of_a_number(tmp_path):
    files = write_weeks(tmp_path / "weeks", 4, n=1200)
    for _, path in files[:2]:
        table = pq.read_table(path)
        ones = pa.array(np.ones(table.num_rows, np.int8))
        pq.write_table(table.set_column(table.schema.get_field_index("label"), "label", ones), path)
    result = backtest(
        files, methods=["slc"], link_windows=2, evidence_windows=2, directory=tmp_path / "scores"
    )
    fold = result.plan.folds[0].key
    assert result.scores[fold]["platt"].metrics is None
    assert "a calibration needs both" in result.scores[fold]["platt"].error
    assert "a calibration needs both" in result.entries[0].left_out["platt"]
    assert any("a calibration needs both" in note for note in result.notes)


def test_items_are_ranked_by_their_gain(scored, weeks):
    result, _ = scored
    found = result.items["slc"]
    gains = [row["gain"] for row in found["best"]]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] > 0 > found["worst"][0]["gain"]
    best = found["best"][0]
    table = pq.read_table(weeks[-1][1]).to_pandas()
    mine = table[table.item_id == best["item_id"]]
    assert best["n"] == len(mine)
    assert best["observed"] == pytest.approx(mine.label.mean())
    assert abs(best["after"] - best["observed"]) < abs(best["before"] - best["observed"])


def test_a_rerun_after_a_crash_leaves_no_partial_score(weeks, tmp_path, monkeypatch):
    plan = plan_folds(weeks, REACH)

    def crash(*_, **__):
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr("slc_ops.evidence.scoring.evaluate", crash)
        with pytest.raises(RuntimeError):
            score_fold(plan.newest, ["slc"], tmp_path)
    assert not list((tmp_path / plan.newest.key).iterdir())
    again = score_fold(plan.newest, ["slc"], tmp_path, options=FitOptions())
    assert again["slc"].metrics is not None


def _without_seconds(value):
    if isinstance(value, dict):
        return {k: _without_seconds(v) for k, v in value.items() if k != "seconds_fit"}
    return [_without_seconds(v) for v in value] if isinstance(value, list) else value
