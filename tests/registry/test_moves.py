"""Promotion and rollback: rules, records, aliases."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from slc_ops.base.errors import ParameterSetError, PromotionConflict, PromotionRefused, RegistryError
from slc_ops.registry import Registry, Version
from slc_ops.registry.rules import NO_CHAMPION
from slc_ops.settings.environment import Installation
from tests.registry.factory import WEEKS, files_of, publication, read_aliases


@pytest.fixture
def mlflow() -> None:
    """Ask for MLflow beside the ledger."""


@pytest.fixture
def registry(installation: Installation, request: pytest.FixtureRequest) -> Registry:
    """A fresh registry: the ledger, whose rules need no MLflow, and MLflow for the tests that ask for it."""
    return Registry.open(replace(installation, rehearsal="mlflow" not in request.fixturenames))


@pytest.fixture
def publish(registry: Registry, parameters: Path):  # type: ignore[no-untyped-def]
    """Publish week ``week`` with a verdict; the code version keeps keys distinct."""

    def publish(week: int, verdict: str = "promote", code: str = "1") -> Version:
        return registry.publish(
            publication(
                parameters,
                window=WEEKS[week],
                verdict={"verdict": verdict, "sentence": "so it is"},
                code_version=code,
            )
        )

    return publish


def promote(registry: Registry, version: Version, **more: object) -> Version:
    return registry.promote("demo", version.number, actor="ann", reason="good evidence", **more)  # type: ignore[arg-type]


@pytest.mark.usefixtures("mlflow")
def test_promotion_moves_the_ledger_and_the_alias(registry: Registry, publish) -> None:  # type: ignore[no-untyped-def]
    version = publish(0)
    promote(registry, version, evidence={"auc": [0.01, 0.02]})
    assert registry.champion("demo") == version
    assert registry.challenger("demo") is None
    assert read_aliases(registry.client, "demo") == {"champion": version.number}
    (move,) = registry.history("demo")
    assert (move.kind, move.from_version, move.to_version) == ("promotion", None, version.number)
    assert (move.actor, move.reason, move.window) == ("ann", "good evidence", WEEKS[0])
    assert move.evidence["auc"] == [0.01, 0.02]


def test_promoting_the_champion_again_changes_nothing(registry: Registry, publish) -> None:  # type: ignore[no-untyped-def]
    version = publish(0)
    for _ in range(3):
        promote(registry, version)
    assert len(registry.history("demo")) == 1


def test_an_older_window_never_replaces_a_newer_champion(registry: Registry, publish) -> None:  # type: ignore[no-untyped-def]
    newer, older = publish(3), publish(1)
    promote(registry, newer)
    for override in (None, "I insist"):
        with pytest.raises(PromotionRefused, match="older window never replaces a newer one"):
            promote(registry, older, override=override)
    assert registry.champion("demo") == newer


def test_a_new_fit_of_the_same_window_may_be_promoted(registry: Registry, publish) -> None:  # type: ignore[no-untyped-def]
    first, again = publish(1), publish(1, code="2")
    promote(registry, first)
    promote(registry, again)
    assert registry.champion("demo") == again


def test_a_rejected_version_needs_a_recorded_override(registry: Registry, publish) -> None:  # type: ignore[no-untyped-def]
    version = publish(0, "reject")
    with pytest.raises(PromotionRefused, match="--override"):
        promote(registry, version)
    promote(registry, version, override="the test window had an outage")
    assert registry.history("demo")[0].override == "the test window had an outage"


def test_only_a_person_may_promote_a_held_version(registry: Registry, publish) -> None:  # type: ignore[no-untyped-def]
    version = publish(0, "hold")
    with pytest.raises(PromotionRefused, match="only 'promote' is promoted"):
        promote(registry, version, automatic=True, against=NO_CHAMPION)
    promote(registry, version)
    assert registry.champion("demo") == version


@pytest.mark.faults(
    "a person rolls back, then the schedule runs again",
    "the rolled-back method does not return until a person asks for it",
)
def test_a_schedule_does_not_undo_a_rollback(registry: Registry, publish) -> None:  # type: ignore[no-untyped-def]
    first, second = publish(0), publish(1)
    promote(registry, first, automatic=True, against=NO_CHAMPION)
    promote(registry, second, automatic=True, against=first.number)
    registry.rollback("demo", actor="bob", reason="complaints")
    with pytest.raises(PromotionRefused, match="bob rolled back to version 1"):
        promote(registry, second, automatic=True, against=first.number)
    promote(registry, second)  # a person may
    assert registry.champion("demo") == second


def test_a_schedule_cannot_override(registry: Registry, publish) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(PromotionRefused, match="a schedule cannot override"):
        promote(registry, publish(0, "reject"), automatic=True, against=NO_CHAMPION, override="please")


def test_a_decision_against_another_champion_is_refused(registry: Registry, publish) -> None:  # type: ignore[no-untyped-def]
    first, second, third = publish(0), publish(1), publish(2)
    promote(registry, first)
    promote(registry, second)
    with pytest.raises(PromotionConflict, match="ann promoted version 2"):
        promote(registry, third, against=first.number)
    promote(registry, third, against=second.number)


def test_a_decision_against_no_champion_is_refused_if_there_is_one(registry: Registry, publish) -> None:  # type: ignore[no-untyped-def]
    first, second = publish(0), publish(1)
    promote(registry, first, against=NO_CHAMPION)
    with pytest.raises(PromotionConflict, match="against no champion of demo, but ann promoted version 1"):
        promote(registry, second, against=NO_CHAMPION)
    assert registry.champion("demo") == first


def test_an_automatic_promotion_must_name_the_compared_champion(registry: Registry, publish) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(PromotionRefused, match="must say which champion it was compared with"):
        promote(registry, publish(0), automatic=True)
    assert registry.champion("demo") is None


@pytest.mark.parametrize(("actor", "reason"), [("", "why"), ("ann", ""), ("  ", "why")])
def test_actor_and_reason_are_required(registry: Registry, publish, actor: str, reason: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(RegistryError, match="an actor and a reason"):
        registry.promote("demo", publish(0).number, actor=actor, reason=reason)


@pytest.mark.usefixtures("mlflow")
def test_repeated_rollbacks_go_back_one_champion_at_a_time(registry: Registry, publish) -> None:  # type: ignore[no-untyped-def]
    first, second, third = publish(0), publish(1), publish(2)
    for version in (first, second, third):
        promote(registry, version)
    assert registry.rollback("demo", actor="bob", reason="bad") == second
    assert registry.rollback("demo", actor="bob", reason="bad too") == first
    assert read_aliases(registry.client, "demo")["champion"] == first.number
    assert [move.kind for move in registry.history("demo")] == ["promotion"] * 3 + ["rollback"] * 2
    with pytest.raises(PromotionRefused, match="no earlier champion"):
        registry.rollback("demo", actor="bob", reason="even further")


def test_a_repeated_request_moves_only_once(registry: Registry, publish) -> None:  # type: ignore[no-untyped-def]
    first, second, third = publish(0), publish(1), publish(2)
    for version in (first, second, third):
        promote(registry, version)
    for _ in range(2):
        assert registry.rollback("demo", actor="bob", reason="bad", request="run 7") == second
    assert registry.champion("demo") == second
    registry.rollback("demo", actor="bob", reason="worse", request="run 8")
    promote(registry, third, request="run 9")
    registry.rollback("demo", actor="bob", reason="no", request="run 10")
    promote(registry, third, request="run 9")
    assert registry.champion("demo") == first


def test_rollback_can_name_any_former_champion(registry: Registry, publish) -> None:  # type: ignore[no-untyped-def]
    first, second = publish(0), publish(1)
    promote(registry, first)
    promote(registry, second)
    assert registry.rollback("demo", first.number, actor="bob", reason="bad") == first
    assert registry.rollback("demo", second.number, actor="bob", reason="it was not") == second
    assert registry.champion("demo") == second


def test_rollback_to_a_version_that_was_never_champion_is_refused(registry: Registry, publish) -> None:  # type: ignore[no-untyped-def]
    promote(registry, publish(0))
    waiting = publish(1)
    with pytest.raises(PromotionRefused, match=r"never was champion \(these were: 1\)"):
        registry.rollback("demo", waiting.number, actor="bob", reason="?")


@pytest.mark.usefixtures("mlflow")
def test_a_version_with_altered_parameters_is_not_promoted(
    registry: Registry,
    publish,  # type: ignore[no-untyped-def]
) -> None:
    first, second = publish(0), publish(1)
    promote(registry, first)
    _items_of(registry, second).write_bytes(b"PAR1 something else PAR1")
    with pytest.raises(ParameterSetError, match="digest"):
        promote(registry, second)
    assert registry.champion("demo") == first
    assert read_aliases(registry.client, "demo")["champion"] == first.number


@pytest.mark.usefixtures("mlflow")
def test_a_version_unknown_to_the_ledger_is_not_promoted(registry: Registry, publish) -> None:  # type: ignore[no-untyped-def]
    first = publish(0)
    run = registry.client.get_run(first.run_id)
    by_hand = registry.client.create_model_version("slc-demo", f"{run.info.artifact_uri}/model")
    with pytest.raises(RegistryError, match="the ledger has no version 2"):
        registry.promote("demo", int(by_hand.version), actor="ann", reason="?")


@pytest.mark.usefixtures("mlflow")
def test_editing_the_verdict_tag_in_mlflow_has_no_effect(registry: Registry, publish) -> None:  # type: ignore[no-untyped-def]
    version = publish(0, "reject")
    registry.client.set_model_version_tag("slc-demo", str(version.number), "verdict", "promote")
    with pytest.raises(PromotionRefused):
        promote(registry, version)


@pytest.mark.usefixtures("mlflow")
def test_the_next_move_repairs_an_alias_missed_by_a_crash(
    registry: Registry,
    publish,  # type: ignore[no-untyped-def]
    caplog: pytest.LogCaptureFixture,
) -> None:
    version = publish(0)
    registry.ledger.advance(
        registry.ledger.head("demo"), version, kind="promotion", actor="ann", reason="then the power failed"
    )
    assert "champion" not in read_aliases(registry.client, "demo")
    with caplog.at_level(logging.WARNING):
        promote(registry, version)
    assert read_aliases(registry.client, "demo") == {"champion": version.number}
    assert len(registry.history("demo")) == 1
    assert "repaired an alias" in caplog.text


def _items_of(registry: Registry, version: Version) -> Path:
    return files_of(registry, version) / "item.parquet"
