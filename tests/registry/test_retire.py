"""Retirement: no champion, recorded in the ledger, and how to leave this state."""

import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slc_ops.base.errors import PromotionConflict, PromotionRefused, RegistryError
from slc_ops.base.names import RETIRED_TAG
from slc_ops.registry import Registry, Version
from slc_ops.registry.ledger import Head, Ledger
from slc_ops.registry.overview import glance as glance_at
from slc_ops.registry.rules import NO_CHAMPION
from tests.registry.factory import WEEKS, publication, read_aliases
from tests.registry.test_ledger import address, ledger, version

__all__ = ["address", "ledger"]


def retire(registry: Registry, **more: object) -> None:
    registry.retire("demo", actor="bob", reason="a new backbone", **more)  # type: ignore[arg-type]


def mark(registry: Registry) -> str | None:
    tag: str | None = registry.client.get_registered_model("slc-demo").tags.get(RETIRED_TAG)
    return tag


def test_retire_removes_the_champion_and_records_actor_and_reason(
    registry: Registry, promoted: list[Version]
) -> None:
    change = registry.retire("demo", actor="bob", reason="a new backbone", evidence={"backbone": "gru-8"})
    assert registry.champion("demo") is None
    assert read_aliases(registry.client, "demo") == {"challenger": 3}
    assert mark(registry) == "3"
    assert registry.history("demo")[-1] == change
    assert (change.kind, change.from_version, change.to_version) == ("retirement", 2, None)
    assert (change.actor, change.reason, change.window) == ("bob", "a new backbone", WEEKS[1])
    assert change.evidence["backbone"] == "gru-8"
    assert str(change).startswith("bob retired the champion at ")
    assert registry.verify("demo") == []
    reported = registry.status()["deployments"]["demo"]
    assert (reported["champion"], reported["retired"]["from_version"], reported["findings"]) == (None, 2, [])
    glance = glance_at(registry.ledger, "demo")
    assert (glance.head.champion, glance.last) == (None, change)


def test_the_method_may_return_by_rule_after_the_given_number_of_windows(
    registry: Registry, promoted: list[Version], parameters: Path
) -> None:
    retire(registry, windows=2)
    later = registry.publish(publication(parameters, window=WEEKS[4]))
    rule = {"actor": "refresh", "reason": "by rule", "automatic": True, "against": NO_CHAMPION}
    with pytest.raises(PromotionRefused, match="slc-ops promote --deployment demo --version 3"):
        registry.promote("demo", 3, **rule)  # type: ignore[arg-type]
    registry.promote("demo", later.number, **rule)  # type: ignore[arg-type]
    assert registry.champion("demo") == later


def test_retiring_twice_changes_nothing(registry: Registry, promoted: list[Version]) -> None:
    first = registry.retire("demo", actor="bob", reason="a new backbone")
    assert registry.retire("demo", actor="eve", reason="once more") == first
    assert len(registry.history("demo")) == 3


def test_without_any_champion_there_is_nothing_to_retire(registry: Registry, parameters: Path) -> None:
    registry.publish(publication(parameters))
    with pytest.raises(PromotionRefused, match="no champion to retire: none was ever promoted"):
        retire(registry)
    assert registry.history("demo") == []


def test_a_champion_other_than_the_named_one_stays(registry: Registry, promoted: list[Version]) -> None:
    with pytest.raises(PromotionConflict, match="against champion 1 of demo, but ann promoted version 2"):
        retire(registry, against=1)
    with pytest.raises(PromotionRefused, match="must say which champion"):
        retire(registry, automatic=True)
    retire(registry, automatic=True, against=2)
    assert registry.champion("demo") is None


def test_a_concurrent_promotion_is_a_conflict_and_a_concurrent_retirement_is_not(
    ledger: Ledger,
) -> None:
    for number in (1, 2):
        ledger.record(version(number))
    seen = ledger.advance(ledger.head("demo"), version(1), kind="promotion", actor="ann", reason="good")
    head = ledger.head("demo")
    assert seen.revision == head.revision
    ledger.advance(head, version(2), kind="promotion", actor="ann", reason="better")
    with pytest.raises(PromotionConflict, match="champion of demo was not retired: ann promoted version 2"):
        ledger.advance(head, None, kind="retirement", actor="bob", reason="late")
    ledger.advance(ledger.head("demo"), None, kind="retirement", actor="bob", reason="now")
    assert ledger.head("demo") == Head("demo", 3, None, None)


def test_concurrent_retirements_leave_one_row_and_all_succeed(
    registry: Registry, promoted: list[Version]
) -> None:
    with ThreadPoolExecutor(6) as pool:
        changes = list(pool.map(lambda n: registry.retire("demo", actor=f"p{n}", reason="race"), range(6)))
    assert len({change.revision for change in changes}) == 1
    assert len(registry.history("demo")) == 3


def test_only_a_retirement_may_lead_to_no_version(ledger: Ledger) -> None:
    ledger.record(version(1))
    with pytest.raises(RegistryError, match="no champion that could be retired"):
        ledger.advance(ledger.head("demo"), None, kind="retirement", actor="ann", reason="?")
    ledger.advance(ledger.head("demo"), version(1), kind="promotion", actor="ann", reason="good")
    with pytest.raises(RegistryError, match="slc_move_ends"):
        ledger.advance(ledger.head("demo"), None, kind="rollback", actor="ann", reason="?")
    assert ledger.head("demo").champion == 1


def test_a_promotion_ends_the_retirement(registry: Registry, promoted: list[Version]) -> None:
    retire(registry)
    with pytest.raises(PromotionRefused, match=r"withdrawn by bob .* until a person promotes it"):
        registry.promote("demo", 3, actor="refresh", reason="good", automatic=True, against=NO_CHAMPION)
    registry.promote("demo", 3, actor="ann", reason="good")
    assert read_aliases(registry.client, "demo") == {"champion": 3}
    assert mark(registry) is None
    assert registry.verify("demo") == []


def test_a_schedule_promotes_neither_a_retired_nor_an_older_version(
    registry: Registry, promoted: list[Version], parameters: Path
) -> None:
    old = registry.publish(publication(parameters, window=WEEKS[0], code_version="2"))
    retire(registry)
    for number, why in ((2, "was withdrawn .*retired"), (old.number, "only later windows")):
        with pytest.raises(PromotionRefused, match=why):
            registry.promote("demo", number, actor="r", reason="x", automatic=True, against=NO_CHAMPION)
    registry.promote("demo", old.number, actor="ann", reason="a person may")
    assert registry.champion("demo") == old


def test_a_rollback_restores_the_retired_champion(registry: Registry, promoted: list[Version]) -> None:
    retire(registry)
    assert registry.rollback("demo", actor="ann", reason="it was needed").number == 2
    assert mark(registry) is None
    assert registry.rollback("demo", actor="ann", reason="further").number == 1
    assert [change.kind for change in registry.history("demo")][2:] == ["retirement", "rollback", "rollback"]


def test_a_repeated_request_retires_only_once(registry: Registry, promoted: list[Version]) -> None:
    retire(registry, request="run 7")
    registry.promote("demo", 3, actor="ann", reason="good")
    retire(registry, request="run 7")
    assert registry.champion("demo") == promoted[2]


def test_an_older_week_does_not_become_challenger_after_a_retirement(
    registry: Registry, promoted: list[Version], parameters: Path
) -> None:
    registry.promote("demo", 3, actor="ann", reason="good")
    retire(registry)
    registry.publish(publication(parameters, window=WEEKS[1], code_version="2"))
    assert registry.challenger("demo") is None
    before = registry.ledger.row("demo")
    with sqlite3.connect(registry.installation.home / "ledger.db") as connection:
        connection.execute("DELETE FROM slc_deployment")
    assert [finding.code for finding in registry.verify("demo", repair=True)] == ["repaired"]
    assert registry.ledger.row("demo") == before


@pytest.mark.parametrize("hand", ["the alias is set again", "the mark is taken away"])
def test_a_manual_change_in_mlflow_is_found_and_repaired(
    registry: Registry, promoted: list[Version], hand: str
) -> None:
    retire(registry)
    if hand == "the alias is set again":
        registry.client.set_registered_model_alias("slc-demo", "champion", "1")
    else:
        registry.client.delete_registered_model_tag("slc-demo", RETIRED_TAG)
    (found,) = registry.verify("demo")
    assert (found.code, found.repairable) == ("alias", True)
    assert "None" not in found.sentence
    assert [finding.code for finding in registry.verify("demo", repair=True)] == ["repaired"]
    assert (read_aliases(registry.client, "demo"), mark(registry)) == ({"challenger": 3}, "3")


def test_a_manually_deleted_alias_does_not_prevent_the_retirement_tag(
    registry: Registry, promoted: list[Version]
) -> None:
    registry.client.delete_registered_model_alias("slc-demo", "champion")
    retire(registry)
    assert mark(registry) == "3"


def test_a_new_ledger_keeps_the_retirement_tag_of_the_lost_one(
    registry: Registry, promoted: list[Version], parameters: Path
) -> None:
    retire(registry)
    for path in registry.installation.home.glob("ledger.db*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    Registry.open(registry.installation).publish(publication(parameters, window=WEEKS[3]))
    assert mark(registry) == "3"
