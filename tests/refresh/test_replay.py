"""A replay of past windows decides each window from earlier ones only."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from slc_ops.base.errors import SettingsError
from slc_ops.base.window import Window
from slc_ops.cli import app
from slc_ops.evidence.replayed import Replay
from slc_ops.evidence.series import Paired
from slc_ops.evidence.verdict import method_in_words
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.refresh import pipeline
from slc_ops.refresh.evidence import read_verdict
from slc_ops.refresh.offline_backtest import backtest_settings
from slc_ops.refresh.publishing import served_before
from slc_ops.refresh.replay import (
    rehearsal_installation,
    replay_windows,
    replayed_windows,
    run_replay,
)
from slc_ops.refresh.versions import newest_refresh
from slc_ops.registry import Registry
from slc_ops.reporting.replay import write_replay
from slc_ops.settings.environment import Installation
from tests.refresh.school import NEWEST, change_week, configure, of_one_class, open_school

WEEKS = [*NEWEST.before(6), NEWEST]
SPAN = ("2026-01-05", "2026-02-23")


METHODS = ["base", "platt_eb", "slc_eb"]


@pytest.fixture(scope="module")
def replayed(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> Replay:
    """The replay of the unchanged weeks."""
    with pytest.MonkeyPatch.context() as patch:
        school = open_school(tmp_path_factory.mktemp("replayed"), lake, patch)
        configure(school, methods=METHODS)
        return run(school)


def run(installation: Installation, name: str = "replay") -> Replay:
    settings = installation.deployment("school")
    windows = replay_windows(settings, *SPAN)
    return run_replay("school", settings, windows, installation.home / name, home=installation.home)


@pytest.mark.slow
def test_every_window_but_the_first_is_scored_and_the_frozen_model_serves_first(
    replayed: Replay,
) -> None:
    assert [each.window for each in replayed.windows] == WEEKS
    assert [each.status for each in replayed.windows] == ["first", *["scored"] * 6]
    assert replayed.windows[0].served == "base"
    for before, after in zip(replayed.windows, replayed.windows[1:], strict=False):
        assert after.served == before.serves_next


@pytest.mark.slow
def test_the_served_score_is_that_of_the_method_fitted_on_earlier_windows(replayed: Replay) -> None:
    for each in replayed.windows[1:]:
        assert each.entry is not None
        pair = each.entry.difference("served", each.served)
        assert pair is not None
        assert pair.d == 0


@pytest.mark.slow
def test_correcting_item_bias_beats_platt_and_the_frozen_model(replayed: Replay) -> None:
    assert replayed.windows[-1].serves_next == "slc_eb"
    assert replayed.best == "slc_eb"
    assert replayed.against("platt")["served"].mean < 0
    assert replayed.against("base")["served"].mean < 0
    assert [each.change for each in replayed.changes] == [
        "promoted"
    ]  # one window with a large difference suffices


@pytest.mark.slow
def test_the_totals_equal_the_sums_of_the_windows(replayed: Replay) -> None:
    contender = replayed.against("platt")["served"]
    assert replayed.cumulated("served", "platt")[-1][1] == pytest.approx(contender.mean * contender.windows)
    assert contender.statistic.low < contender.statistic.mean < contender.statistic.high


@pytest.mark.slow
def test_a_later_window_does_not_change_earlier_decisions(school: Installation, replayed: Replay) -> None:
    configure(school, methods=METHODS)
    before = replayed.as_dict()["windows"]
    change_week(school, NEWEST, turned)
    after = run(school, "after").as_dict()["windows"]
    assert before[:-1] == after[:-1]
    assert before[-1]["served"] == after[-1]["served"]
    assert before[-1]["nll"] != after[-1]["nll"]


@pytest.mark.slow
def test_a_stopped_and_a_missing_window_are_named_and_the_champion_keeps_serving(
    school: Installation,
) -> None:
    configure(school, methods=METHODS)
    change_week(school, WEEKS[3], lambda week: week.slice(0, 0))
    change_week(school, WEEKS[5], of_one_class)
    found = run(school)
    assert [each.status for each in found.windows] == [
        "first", "scored", "scored", "missing", "scored", "stopped", "scored",
    ]  # fmt: skip
    assert found.windows[3].serves_next == found.windows[3].served
    stopped = found.as_dict()["stopped"]
    assert [each["window"] for each in stopped] == [str(WEEKS[5])]
    assert "label_one_class" in stopped[0]["why"]
    # A stopped window is still scored, with the champion of the windows before it.
    assert [each.window for each in found.scored] == [WEEKS[1], WEEKS[2], WEEKS[4], WEEKS[5], WEEKS[6]]
    entry, served = found.windows[5].entry, found.windows[5].served
    assert entry is not None
    assert served == "slc_eb"
    assert entry.nll["served"] != entry.nll["base"]
    assert found.rows_without_evidence == entry.rows
    weights = [each.weight for each in found.scored]
    d = [value for _, value in found.differences("served", "platt")]
    assert found.against("platt")["served"].row_mean == pytest.approx(
        sum(w * x for w, x in zip(weights, d, strict=True)) / sum(weights)
    )


def of_backbone(version: str) -> Callable[[pa.Table], pa.Table]:
    def change(week: pa.Table) -> pa.Table:
        place = week.schema.get_field_index("backbone_version")
        return week.set_column(place, "backbone_version", pa.array([version] * week.num_rows))

    return change


def turned(week: pa.Table) -> pa.Table:
    label = pa.array([1 - value for value in week.column("label").to_pylist()])
    return week.set_column(week.schema.get_field_index("label"), "label", label)


@pytest.mark.slow
def test_a_champion_of_another_backbone_does_not_serve_and_its_windows_are_left_out(
    school: Installation,
) -> None:
    configure(school, methods=METHODS)
    for k, week in enumerate(WEEKS):
        change_week(school, week, of_backbone("gru-7" if k < 3 else "gru-8"))
    settings, directory = school.deployment("school"), school.home / "past"
    found = {}
    for seen in replayed_windows("school", settings, WEEKS, directory, home=school.home):
        plan = newest_refresh(rehearsal_installation(directory, school.home), "school", seen.window)
        assert plan is not None
        found[seen.window] = seen, [each.window for each in plan.windows]
    seen, windows = found[WEEKS[3]]
    assert found[WEEKS[2]][0].serves_next != "base"
    assert (seen.status, seen.served) == ("first", "base")  # no earlier window of gru-8
    assert "was fitted for gru-7, whose corrections do not apply: it was retired" in seen.note
    assert windows == [WEEKS[3]]
    assert found[NEWEST][1] == WEEKS[3:]


@pytest.mark.slow
def test_a_tracking_method_cannot_win_if_drift_is_not_detectable(school: Installation) -> None:
    configure(school, methods=["base", "platt_eb", "slc_t"])
    found = run(school)
    assert {each.serves_next for each in found.windows} <= {"base", "platt_eb"}
    assert "slc_t is not chosen: drift is not detectable in these data" in found.windows[-1].sentence


@pytest.mark.slow
def test_a_renewal_held_for_its_slope_keeps_its_window(school: Installation) -> None:
    configure(school, methods=METHODS)
    change_week(school, WEEKS[0], turned)
    settings, directory = school.deployment("school"), school.home / "past"
    steps = replayed_windows("school", settings, WEEKS[:2], directory, home=school.home)
    first = next(steps)
    assert first.renewal == "held"
    assert "check its logits" in first.sentence
    next(steps)
    plan = newest_refresh(rehearsal_installation(directory, school.home), "school", WEEKS[1])
    assert plan is not None
    assert [each.window for each in plan.windows] == WEEKS[:2]  # only windows that moved too far are left out


def without_signal(week: pa.Table) -> pa.Table:
    """Logits with little variation and no information; their slope is slightly below 0 by chance."""
    label = week["label"].to_numpy() - np.mean(week["label"].to_numpy())
    rng = np.random.default_rng(0)
    while True:
        noise = rng.normal(0, 0.01, len(label))
        z = np.corrcoef(noise, label)[0, 1] * np.sqrt(len(label))
        if -1.8 < z < -0.8:
            place = week.schema.get_field_index("logit")
            return week.set_column(place, "logit", pa.array(0.1 + noise))


@pytest.mark.slow
def test_a_slope_that_is_below_0_by_chance_holds_no_renewal(school: Installation) -> None:
    configure(school, methods=["base", "platt"])
    change_week(school, WEEKS[0], without_signal)
    settings, directory = school.deployment("school"), school.home / "past"
    first = next(replayed_windows("school", settings, WEEKS[:1], directory, home=school.home))
    assert first.renewal != "held"
    plan = newest_refresh(rehearsal_installation(directory, school.home), "school", WEEKS[0])
    assert plan is not None
    link = ParameterSet.read(plan.files.parameters).affine()
    assert link is not None
    assert link["a"] < 0


@pytest.mark.slow
def test_windows_between_two_scheduled_refreshes_are_scored_and_decide_nothing(school: Installation) -> None:
    configure(school, methods=METHODS, refresh_every=2)
    found = run(school)
    assert [each.status for each in found.windows] == ["first", *["scored"] * 6]
    decided = [bool(each.sentence) for each in found.windows]
    assert decided == [not decided[1], decided[1]] * 3 + [not decided[1]]
    for each in found.windows:
        assert each.sentence or each.serves_next == each.served


def test_effects_are_an_option_of_a_replay(school: Installation) -> None:
    asked = backtest_settings("school", None, effects=("item", "user"))
    assert asked.effects == ("item", "user")
    assert backtest_settings("school", None).effects == ("item", "slope", "group")


def test_a_border_off_the_grid_is_refused(school: Installation) -> None:
    with pytest.raises(SettingsError, match="take 2026-01-05 or 2026-01-12"):
        replay_windows(school.deployment("school"), "2026-01-06", "2026-02-23")


@pytest.mark.slow
def test_the_report_is_one_self_contained_file(replayed: Replay, tmp_path: Path) -> None:
    text = write_replay(tmp_path / "page" / "replay.html", replayed).read_text()
    assert "<svg" in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "https://" not in text
    for each in replayed.windows:
        assert str(each.window) in text
    assert write_replay(tmp_path / "again" / "replay.html", replayed).read_text() == text


@pytest.mark.slow
def test_the_headline_agrees_with_the_intervals(replayed: Replay, tmp_path: Path) -> None:
    platt, frozen = (replayed.against(each)["served"] for each in ("platt", "base"))
    words = {True: "better than", False: "not clearly apart from"}
    reported = [words[each.statistic.high < 0] for each in (platt, frozen)]
    assert all(each.statistic.low < 0 for each in (platt, frozen))
    text = replayed.headline.lower()
    if reported[0] == reported[1]:
        assert text == f"{reported[0]} platt and the frozen model"
    else:
        assert text == f"{reported[1]} the frozen model, {reported[0]} platt"
    assert replayed.headline in write_replay(tmp_path / "replay.html", replayed).read_text()
    noisy = [
        replace(each, entry=replace(each.entry, against={"platt": {"base": Paired(0.1 * (-1) ** k, 0.01)},
                                                         "served": {"platt": Paired(0.1 * (-1) ** k, 0.01),
                                                                    "base": Paired(0.1, 0.001)}}))
        for k, each in enumerate(replayed.windows) if each.entry is not None and k
    ]  # fmt: skip
    unclear = replace(replayed, windows=tuple(noisy))
    assert unclear.headline == "Worse than the frozen model, not clearly apart from Platt"


@pytest.mark.slow
def test_the_command_prints_80_columns_writes_the_report_and_registers_nothing(
    school: Installation, tmp_path: Path
) -> None:
    configure(school, methods=METHODS)
    out = tmp_path / "kept"
    asked = ["replay", "--deployment", "school", "--from", SPAN[0], "--to", SPAN[1]]
    result = CliRunner().invoke(
        app, [*asked, "--out", str(out), "--json", str(tmp_path / "r.json")], env={"COLUMNS": "80"}
    )
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert max(len(line) for line in lines if not line.startswith("Page: ")) <= 80
    assert any(line.startswith("After 2026-") for line in lines)
    assert any(line.startswith("  ") for line in lines)  # continuation lines are indented
    assert "2026-02-16" in result.output
    assert (out / "replay.html").exists()
    assert not (school.home / "ledger.db").exists()
    assert not (school.home / "mlflow.db").exists()
    assert sorted(path.name for path in out.iterdir()) == ["figures", "replay.html", "windows"]
    found = json.loads((tmp_path / "r.json").read_text())
    assert found["against"]["platt"]["served"]["windows"] == 6
    assert found["windows"][-1]["cumulated_minus_platt"]["platt"] == 0
    scored = [each["auc"] for each in found["windows"] if each["auc"]]
    assert len(scored) == 6
    for kind in ("all", "user", "item"):
        assert found["auc"]["slc_eb"][kind] == pytest.approx(sum(each["slc_eb"][kind] for each in scored) / 6)
    assert scored[-1]["served"] == scored[-1][found["windows"][-1]["served"]]
    assert found["auc"]["slc_eb"]["item"] == pytest.approx(found["auc"]["platt"]["item"], abs=1e-12)
    assert found["ranking"] in " ".join(result.output.split())
    assert found["ranking"] in (out / "replay.html").read_text()


@pytest.mark.slow
def test_a_replay_scores_the_versions_served_according_to_reports_and_ledger(
    school: Installation, replayed: Replay
) -> None:
    configure(school, methods=METHODS)
    scored = {}
    for each in replayed.scored:
        pair = each.difference("served", "platt")
        assert pair is not None
        scored[each.window] = pair.d
    for window in WEEKS:
        plan = pipeline.refresh(school, "school", window)
    reported = {each.window: each.platt["nll"].estimate for each in served_before(plan)}  # by the report
    assert set(reported) == {each.window for each in plan.windows[:-1]}
    entered = Registry.open(school).ledger.versions("school")[-1].metrics  # by page, status and MLflow
    reported[NEWEST] = entered["served"]["vs_platt"]["nll"]["estimate"]
    assert entered["series"]["windows"] == school.deployment("school").evidence_windows
    status = Registry.open(school).status()["deployments"]["school"]["serves"]
    began = Window.from_dict(status["since"])
    own = [
        pair.d
        for each in replayed.scored
        if began < each.window and (pair := each.difference(status["method"], "base"))
    ]
    counted = own[-entered["series"]["windows"] :]
    assert status["since_start"]["windows"] == len(counted) > 1
    assert min(counted) < status["since_start"]["vs_base"]["estimate"] < max(counted)
    text = method_in_words(read_verdict(plan))
    assert f"Over {len(counted)} windows that {status['method']} served, its NLL differed by −" in text
    for window, value in reported.items():
        assert value == pytest.approx(scored[window], abs=1e-12)
