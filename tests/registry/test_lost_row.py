"""Lost rows of the ledger never remove the champion, and a command repairs them."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from slc_ops.base.errors import RegistryError
from slc_ops.registry import Registry, Version
from slc_ops.registry.ledger import Head
from tests.registry.factory import WEEKS, publication, read_aliases


def damage(registry: Registry, statement: str) -> None:
    """Edit the database with sqlite3, bypassing foreign keys and triggers."""
    with sqlite3.connect(registry.installation.home / "ledger.db") as connection:
        for trigger in ("slc_move_no_delete", "slc_publication_no_delete"):
            connection.execute(f"DROP TRIGGER IF EXISTS {trigger}")
        connection.execute(statement)


@pytest.mark.faults(
    "the ledger's row of a deployment is lost",
    "`verify --repair` rebuilds it from the recorded promotions",
)
def test_verify_repair_rebuilds_a_lost_row_from_the_promotions(
    registry: Registry, promoted: list[Version]
) -> None:
    before = registry.ledger.row("demo")
    damage(registry, "DELETE FROM slc_deployment")
    assert registry.ledger.deployments() == ["demo"]
    (found,) = registry.verify("demo")
    assert (found.code, found.repairable) == ("line", True)
    assert "row is lost; the line ends with version 2 after 2 moves" in found.sentence
    assert [finding.code for finding in registry.verify("demo", repair=True)] == ["repaired"]
    assert registry.ledger.row("demo") == before == Head("demo", 2, 2, 3)
    assert read_aliases(registry.client, "demo") == {"champion": 2, "challenger": 3}
    assert registry.verify("demo") == []


def test_with_a_lost_row_status_still_shows_the_champion(registry: Registry, promoted: list[Version]) -> None:
    damage(registry, "DELETE FROM slc_deployment")
    answer = registry.status()["deployments"]["demo"]
    assert (answer["champion"]["version"], answer["challenger"]["version"]) == (2, 3)


@pytest.mark.parametrize("move", ["publish", "promote", "rollback", "retire"])
def test_every_write_repairs_a_lost_row_and_keeps_the_champion(
    registry: Registry, promoted: list[Version], parameters: Path, move: str
) -> None:
    damage(registry, "DELETE FROM slc_deployment")
    if move == "publish":
        registry.publish(publication(parameters, window=WEEKS[3]))
        expected = {"champion": 2, "challenger": 4}
    elif move == "promote":
        registry.promote("demo", 3, actor="ann", reason="good")
        expected = {"champion": 3}
    elif move == "retire":
        registry.retire("demo", actor="ann", reason="bad")
        expected = {"challenger": 3}
    else:
        registry.rollback("demo", actor="ann", reason="bad")
        expected = {"champion": 1, "challenger": 3}
    assert read_aliases(registry.client, "demo") == expected
    assert registry.verify("demo") == []


def test_an_outdated_row_is_set_to_the_last_promotion(registry: Registry, promoted: list[Version]) -> None:
    damage(registry, "UPDATE slc_deployment SET revision = 1, champion = 1")
    assert registry.verify("demo")[0].repairable
    assert "repaired" in [finding.code for finding in registry.verify("demo", repair=True)]
    assert read_aliases(registry.client, "demo")["champion"] == 2
    assert registry.verify("demo") == []


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM slc_move WHERE revision = 2",
        "DELETE FROM slc_move WHERE revision = 1",
        "DELETE FROM slc_move",
    ],
)
def test_lost_moves_are_not_repaired_and_no_alias_changes(
    registry: Registry, promoted: list[Version], statement: str
) -> None:
    damage(registry, statement)
    registry.client.set_registered_model_alias("slc-demo", "champion", "1")
    left = registry.verify("demo", repair=True)
    assert "repaired" not in [finding.code for finding in left]
    assert any("restore the ledger from its backup" in finding.sentence for finding in left)
    assert read_aliases(registry.client, "demo") == {"champion": 1, "challenger": 3}


def test_publishing_into_an_inconsistent_ledger_is_refused_with_the_repair_command(
    registry: Registry, promoted: list[Version], parameters: Path
) -> None:
    damage(registry, "DELETE FROM slc_move")
    with pytest.raises(RegistryError, match=r"contradicts itself .* verify --repair"):
        registry.publish(publication(parameters, window=WEEKS[3]))
    assert read_aliases(registry.client, "demo")["champion"] == 2


def test_a_new_ledger_does_not_delete_the_champion_of_the_lost_one(
    registry: Registry, promoted: list[Version], parameters: Path
) -> None:
    for path in registry.installation.home.glob("ledger.db*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    fresh = Registry.open(registry.installation)
    published = fresh.publish(publication(parameters, window=WEEKS[3]))
    assert read_aliases(fresh.client, "demo") == {"champion": 2, "challenger": published.number}
    left = [finding for finding in fresh.verify("demo", repair=True) if finding.code == "alias"]
    assert "another ledger made it champion" in left[0].sentence
    fresh.promote("demo", published.number, actor="ann", reason="the way out")
    assert read_aliases(fresh.client, "demo") == {"champion": published.number}


def test_a_version_above_the_integer_range_is_unknown(registry: Registry, promoted: list[Version]) -> None:
    for number in (2**31, 2**63, 2**70, 0, -1):
        with pytest.raises(RegistryError, match="the ledger has no version"):
            registry.ledger.version("demo", number)
