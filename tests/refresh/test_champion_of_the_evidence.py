"""The champion is an input of the evidence: it is read once, stored, and checked at promotion."""

from pathlib import Path
from typing import Any

import pytest

from slc_ops.base.errors import PromotionConflict
from slc_ops.base.files import read_json
from slc_ops.refresh import evidence, pipeline
from slc_ops.refresh.plan import Plan
from slc_ops.registry import Registry, Version, overview
from slc_ops.registry.ledger import Ledger
from slc_ops.settings.environment import Installation
from tests.refresh.school import NEWEST

pytestmark = pytest.mark.slow
OLDER = NEWEST.before(1)[0]


def promoted_in_between(installation: Installation, plan: Plan) -> Version:
    """Publish the week before and promote it manually, after the verdict of this refresh."""
    registered = pipeline.refresh(installation, "school", OLDER, until="publish")
    assert registered.deployment == plan.deployment
    registry = Registry.open(installation)
    (version,) = [each for each in registry.ledger.versions("school") if each.window == OLDER]
    return registry.promote("school", version.number, actor="ann", reason="it could not wait")


def test_an_automatic_promotion_only_replaces_the_champion_it_was_compared_with(
    school: Installation,
) -> None:
    plan = pipeline.refresh(school, "school", NEWEST, until="publish")
    assert read_json(plan.files.verdict)["champion"]["status"] == "absent"
    champion = promoted_in_between(school, plan)

    with pytest.raises(PromotionConflict, match="against no champion of school, but ann promoted"):
        pipeline.promote(school, plan)
    assert Registry.open(school).champion("school") == champion


def test_after_a_conflict_a_rerun_compares_with_the_new_champion_and_succeeds(
    school: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = pipeline.refresh(school, "school", NEWEST, until="publish")
    page, fitted = plan.files.report_page.read_text(), times(plan.files.parameters)
    champion = promoted_in_between(school, plan)

    def explode(*_: Any, **__: Any) -> None:
        raise AssertionError("a method was fitted again")

    monkeypatch.setattr("slc_ops.evidence.scoring.fit_prepared", explode)
    monkeypatch.setattr("slc_ops.methods.fit", explode)
    again = pipeline.refresh(school, "school", NEWEST)

    assert again == plan
    backtest, verdict = read_json(plan.files.backtest), read_json(plan.files.verdict)
    for said in (backtest["champion"], verdict["champion"]):
        assert (said["status"], said["version"], said["digest"]) == (
            "scored",
            str(champion.number),
            champion.key,
        )
    registry = Registry.open(school)
    present = registry.champion("school")
    assert present is not None
    assert present.window == NEWEST
    assert registry.history("school")[-1].evidence["champion"] == verdict["champion"]
    assert len(registry.ledger.versions("school")) == 2
    # Only the champion's score, the backtest, the verdict and the report are recomputed.
    assert times(plan.files.parameters) == fitted
    assert plan.files.report_page.read_text() != page
    tags = registry.client.get_model_version("slc-school", str(present.number)).tags
    assert tags["verdict_sentence"] == verdict["sentence"]


def test_a_repeated_backtest_reports_the_score_and_number_of_the_new_champion(
    school: Installation,
) -> None:
    first = pipeline.refresh(school, "school", OLDER.before(1)[0], until="publish")
    other = pipeline.refresh(
        school,
        "school",
        OLDER,
        settings=school.deployment("school").with_methods(["temperature"]),
        until="publish",
    )
    registry = Registry.open(school)
    versions = {each.window: each for each in registry.ledger.versions("school")}
    registry.promote("school", versions[first.window].number, actor="ann", reason="first")
    plan = pipeline.refresh(school, "school", NEWEST, until="publish")
    old = read_json(plan.files.backtest)

    registry.promote("school", versions[other.window].number, actor="ann", reason="second")
    pipeline.backtest(school, plan)
    new = read_json(plan.files.backtest)

    newest = NEWEST.key
    assert new["champion"]["version"] == str(versions[other.window].number)
    assert new["scores"][newest]["champion"]["metrics"] != old["scores"][newest]["champion"]["metrics"]
    assert new["champion"]["method"] == versions[other.window].method
    assert of_methods(new) == of_methods(old)


def of_methods(backtest: dict[str, Any]) -> dict[str, Any]:
    """The scores of the methods, without the champion's."""
    return {
        fold: {method: score for method, score in found.items() if method != "champion"}
        for fold, found in backtest["scores"].items()
    }


def test_the_champion_is_read_once_per_backtest(
    school: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.refresh(school, "school", OLDER)
    asked: list[str] = []
    read = overview.glance

    def counted(ledger: Ledger, deployment: str) -> overview.Glance:
        asked.append(deployment)
        return read(ledger, deployment)

    plan = pipeline.refresh(school, "school", NEWEST, until="decide")
    plan.files.backtest.unlink()
    monkeypatch.setattr(overview, "glance", counted)
    evidence.backtest(school, plan)
    assert asked == ["school"]


def test_a_refresh_repeated_after_a_newer_champion_keeps_its_evidence(school: Installation) -> None:
    older = pipeline.refresh(school, "school", OLDER)
    said = read_json(older.files.verdict)
    pipeline.refresh(school, "school", NEWEST)

    pipeline.refresh(school, "school", OLDER)

    assert read_json(older.files.verdict) == said
    champion = Registry.open(school).champion("school")
    assert champion is not None
    assert champion.window == NEWEST


def times(directory: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in directory.iterdir()}
