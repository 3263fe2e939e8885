"""Nine weeks of gru-7, then gru-8: windows are separated, the champion is retired or kept, and recovery."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from slc_ops.base.errors import SelfTestFailed, ValidationStopped
from slc_ops.cli import app
from slc_ops.demo.simulate import simulate
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.refresh.backbone import read_backbone_change, serving_version
from slc_ops.refresh.window_rules import Reach, windows_of_the_backbone_before
from slc_ops.registry import Registry
from slc_ops.rows.engine import LOCAL
from slc_ops.serving import Corrector
from slc_ops.settings.environment import Installation
from tests.refresh.backbones import SETTINGS, WEEKS, champion_of, first_steps, furnish, named, refresh
from tests.refresh.school import change_week, configure
from tests.refresh.test_damage import flip


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve weeks: nine of gru-7, then gru-8 (no week mixes both)."""
    out = tmp_path_factory.mktemp("story")
    simulate(out, weeks=12, users=300, items=60, seed=11, start="2026-01-05")
    return out


@pytest.fixture
def school(tmp_path: Path, story: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    return furnish(tmp_path, story, monkeypatch)


def status() -> str:
    return " ".join(CliRunner().invoke(app, ["status"], catch_exceptions=False).output.split())


@pytest.mark.slow
def test_a_new_backbone_from_its_first_week_to_its_champion(school: Installation) -> None:
    old = champion_of(school, 8)
    registry = Registry.open(school)
    items = ["item-000001", "item-000002"]
    corrector = Corrector.from_registry(
        school.tracking_uri, "school", cache=school.home / "cache", interval=None
    )
    assert corrector.health()["backbone_version"] == "gru-7"
    frozen = (1 / (1 + np.exp(-np.array([0.3, -1.0])))).tolist()
    assert corrector.correct(items, [0.3, -1.0]).tolist() != pytest.approx(frozen, abs=1e-3)
    assert corrector.correct(items, [0.3, -1.0], backbone_version="gru-8").tolist() == pytest.approx(frozen)

    plan, change = first_steps(school, 9)

    assert change is not None
    assert change.sentence.startswith("new backbone gru-8 in window 2026-03-09/2026-03-16; champion")
    assert (change.champion, change.champion_backbone, change.retired) == (old, "gru-7", True)
    assert [each.window for each in plan.windows] == [WEEKS[9]], "no row of gru-7 was learned from"
    assert {each["kind"] for each in plan.excluded} == {"backbone"}
    (retirement,) = [change for change in registry.history("school") if change.kind == "retirement"]
    assert (retirement.from_version, retirement.actor) == (old, "refresh")
    assert "the backbone changed from gru-7 to gru-8" in retirement.reason

    assert registry.champion("school") is None
    assert "no champion, the frozen model serves" in status()
    assert "the backbone changed from gru-7 to gru-8" in status()
    assert corrector.refresh()
    assert corrector.health()["serves"] == "frozen"
    assert corrector.correct(items, [0.3, -1.0]).tolist() == pytest.approx(frozen)

    again, reported = first_steps(school, 9)
    assert (again.directory, reported) == (plan.directory, change)
    assert len([change for change in registry.history("school") if change.kind == "retirement"]) == 1

    new = champion_of(school, 10)
    assert new != old
    assert corrector.refresh()
    assert corrector.health()["backbone_version"] == "gru-8"
    assert (
        json.loads(CliRunner().invoke(app, ["verify", "--json", "-"]).output)["deployments"]["school"] == []
    )
    _, said = refresh(school, 11)
    assert not any("new backbone" in line for line in said)


@pytest.mark.slow
def test_a_new_backbone_starts_from_the_old_offsets_if_they_predict_its_rows(
    school: Installation,
) -> None:
    configure(school, **SETTINGS, methods=["platt", "slc_eb"])
    for week in WEEKS[9:11]:  # few rows, too few to learn from alone
        change_week(school, week, lambda rows: rows.take(np.arange(0, rows.num_rows, 8)))
    plan, _ = first_steps(school, 9)
    assert [each.window for each in plan.earlier] == [WEEKS[7], WEEKS[8]]
    assert {each.log.parent for each in plan.earlier} == {plan.files.windows}, "pinned like the others"

    plan, _ = refresh(school, 10)

    assert [each.window for each in plan.windows] == [WEEKS[9], WEEKS[10]]
    fitted = plan.files.scores / "2026-03-16" / "slc_eb" / "parameters"
    found = ParameterSet.read(fitted).provenance.prior_mean
    assert found is not None
    assert found.backbone_version == "gru-7"

    configure(school, **SETTINGS, methods=["platt", "slc"])
    assert first_steps(school, 10)[0].earlier == ()


def test_a_warm_start_uses_windows_of_the_last_earlier_backbone() -> None:
    others = [
        (WEEKS[k], {f"gru-{version}"}) for k, version in ((1, 6), (2, 7), (3, 6), (4, 7), (5, 7), (8, 9))
    ]
    mixed = (WEEKS[6], {"gru-7", "gru-8"})
    reach, methods = Reach(2, 2, 2), ("platt", "slc_eb")
    before = windows_of_the_backbone_before(WEEKS[7], [*others, mixed], reach, methods)
    assert before == [WEEKS[4], WEEKS[5]], "of two at most"
    assert windows_of_the_backbone_before(WEEKS[1], others, reach, methods) == []
    assert windows_of_the_backbone_before(WEEKS[7], others, reach, ("platt", "slc")) == []


@pytest.mark.slow
def test_a_deployment_may_keep_the_old_champion_with_a_weekly_warning(school: Installation) -> None:
    old = champion_of(school, 8)
    configure(school, **SETTINGS, champion_of_another_backbone="keep", gate="never")
    _, reported = first_steps(school, 9)
    assert reported is not None
    assert "it still serves, by your rule" in reported.sentence
    champion = Registry.open(school).champion("school")
    assert champion is not None
    assert champion.number == old
    change = read_backbone_change(school, "school", old)
    assert change is not None
    assert change.backbone_version == "gru-8"
    assert "new backbone gru-8" in status()
    _, said = refresh(school, 10)
    assert any("new backbone gru-8" in line for line in said)


@pytest.mark.slow
def test_a_returning_backbone_uses_its_own_weeks_again(school: Installation) -> None:
    change_week(school, WEEKS[10], named("gru-7"))
    configure(school, **{**SETTINGS, "offset_windows": 3})
    plan, _ = first_steps(school, 10)
    assert [each.window for each in plan.windows] == [WEEKS[6], WEEKS[7], WEEKS[8], WEEKS[10]]
    assert plan.earlier == (), "a week of gru-8 lies behind rows that would learn from it"


def versions_of(log: Path) -> Counter[str]:
    return Counter(pq.read_table(log)["backbone_version"].drop_null().to_pylist())


def log_of(versions: list[str | None]) -> pa.Table:
    rows = len(versions)
    columns = {"item_id": np.arange(rows), "label": np.zeros(rows, np.int8), "logit": np.zeros(rows)}
    return pa.table({**columns, "event_time": np.arange(rows), "backbone_version": versions})


@pytest.mark.slow
def test_a_mixed_week_stops_unless_configured_to_be_split(school: Installation) -> None:
    change_week(school, WEEKS[9], named("gru-8", share=0.4))
    with pytest.raises(ValidationStopped, match="backbones_mixed"):
        first_steps(school, 9)
    configure(school, **SETTINGS, on_new_backbone="split")
    plan, _ = first_steps(school, 9)
    (window,) = plan.windows
    assert window.window == WEEKS[9]
    assert set(versions_of(window.log)) == {"gru-8"}
    whole = versions_of(school.windows("school") / WEEKS[9].key / "log.parquet")
    assert versions_of(window.log)["gru-8"] == whole["gru-8"]
    again, _ = first_steps(school, 9)
    assert again.directory == plan.directory
    later, _ = refresh(school, 10)
    assert [set(versions_of(each.log)) for each in later.windows] == [{"gru-8"}, {"gru-8"}]


@pytest.mark.slow
def test_damaged_split_rows_of_a_mixed_week_are_not_used(school: Installation) -> None:
    change_week(school, WEEKS[9], named("gru-8", share=0.4))
    configure(school, **SETTINGS, on_new_backbone="split")
    plan, _ = first_steps(school, 9)
    flip("label")(plan.newest.log)
    with pytest.raises(SelfTestFailed, match=rf"{plan.newest.log} cannot be read .*CRC checksum"):
        refresh(school, 9)


def test_the_serving_backbone_is_that_of_the_last_rows(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    versions = ["gru-7"] * 80 + ["gru-8"] * 15 + ["gru-7"] + ["gru-8"] * 4
    order = np.random.default_rng(0).permutation(100)
    table = log_of(versions).take(order)
    pq.write_table(table, path)
    assert serving_version(path, {"gru-7", "gru-8"}, LOCAL) == "gru-8"
    pq.write_table(table.drop_columns("backbone_version"), path)
    assert serving_version(path, set(), LOCAL) is None


@pytest.mark.parametrize("unnamed", [8, 20], ids=["most of the last tenth", "all of the last tenth"])
def test_rows_without_a_version_do_not_determine_the_serving_backbone(tmp_path: Path, unnamed: int) -> None:
    path = tmp_path / "log.parquet"
    versions = ["gru-7"] * 30 + ["gru-8"] * 50 + ["gru-7"] * (20 - unnamed) + [None] * unnamed
    pq.write_table(log_of(versions), path)
    served = "gru-7" if unnamed < 10 else "gru-8"
    assert serving_version(path, {"gru-7", "gru-8"}, LOCAL) == served


@pytest.mark.slow
def test_if_mixtures_are_allowed_mixed_weeks_and_weeks_of_both_backbones_are_used(
    school: Installation,
) -> None:
    change_week(school, WEEKS[9], named("gru-8", share=0.4))
    configure(school, **SETTINGS, quality={"allow_mixed_backbones": True})
    plan, _ = first_steps(school, 9)
    assert len(plan.windows) == 4
    assert set(versions_of(plan.newest.log)) == {"gru-7", "gru-8"}


def unnamed(rows: pa.Table, count: int | None = None) -> pa.Table:
    """The first rows without a version; all of them by default."""
    versions = rows["backbone_version"].to_pylist()
    count = len(versions) if count is None else count
    place = rows.schema.names.index("backbone_version")
    changed = pa.array([None] * count + versions[count:], pa.string())
    return rows.set_column(place, "backbone_version", changed)


@pytest.mark.slow
def test_rows_without_a_version_match_any_backbone(school: Installation) -> None:
    change_week(school, WEEKS[7], lambda rows: unnamed(rows, 1))
    change_week(school, WEEKS[8], lambda rows: unnamed(rows, 1))
    plan, _ = first_steps(school, 8)
    assert [each.window for each in plan.windows] == WEEKS[5:9]
    assert plan.backbone_version == "gru-7"
    assert plan.excluded == ()


@pytest.mark.slow
def test_the_first_window_that_names_its_backbone_keeps_its_history(school: Installation) -> None:
    for week in WEEKS[4:9]:
        change_week(school, week, unnamed)
    plan, _ = first_steps(school, 9)
    assert [each.window for each in plan.windows] == WEEKS[6:10]
    assert plan.backbone_version == "gru-8"
    assert plan.excluded == ()


@pytest.mark.slow
def test_a_champion_of_an_unnamed_backbone_stays_when_the_log_names_one(school: Installation) -> None:
    for week in WEEKS[5:9]:
        change_week(school, week, unnamed)
    champion = champion_of(school, 8)
    plan, change = first_steps(school, 9)
    assert (plan.backbone_version, change) == ("gru-8", None)
    serving = Registry.open(school).champion("school")
    assert serving is not None
    assert serving.number == champion
