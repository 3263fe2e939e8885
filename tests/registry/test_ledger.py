"""The ledger on SQLite and PostgreSQL: append-only, compare-and-set, concurrent migrations."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import text

from slc_ops.base.errors import PromotionConflict, RegistryError
from slc_ops.base.window import Window
from slc_ops.registry.ledger import Head, Ledger
from slc_ops.registry.overview import glance as glance_at
from slc_ops.registry.publication import Version
from tests.registry.factory import WEEKS


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ledger.db"
    fresh: Callable[[], str] = request.getfixturevalue("postgres")
    return fresh()


@pytest.fixture
def ledger(address: str) -> Ledger:
    return Ledger(address)


def version(number: int, week: int = 0) -> Version:
    return Version(
        deployment="demo",
        number=number,
        method="slc",
        window=WEEKS[week],
        verdict="promote",
        metrics={"auc": 0.7, "ece": None},
        run_id=f"run{number}",
        key=f"{number:064d}",
        published_at=datetime.now(UTC),
    )


def test_records_round_trip(ledger: Ledger) -> None:
    ledger.record(version(1))
    ledger.advance(
        ledger.head("demo"), version(1), kind="promotion", actor="ann", reason="good", evidence={"p": [1]}
    )
    assert ledger.version("demo", 1) == ledger.published(version(1).key)
    assert ledger.version("demo", 1).window == WEEKS[0]
    assert ledger.head("demo") == Head("demo", revision=1, champion=1, challenger=None)
    (move,) = ledger.line("demo")
    assert (move.actor, move.reason, move.from_version, move.to_version) == ("ann", "good", None, 1)
    assert move.evidence == {"p": [1]}
    assert move.at.tzinfo is not None


def test_windows_use_the_dates_of_the_deployments_zone(address: str) -> None:
    local = Window.parse("2026-03-29/2026-03-30", "Europe/Berlin")
    ledger = Ledger(address, zone_of={"demo": "Europe/Berlin"}.__getitem__)
    entered = replace(version(1), window=local)
    ledger.record(entered)
    move = ledger.advance(ledger.head("demo"), entered, kind="promotion", actor="ann", reason="good")
    glance = glance_at(ledger, "demo")
    assert glance.last is not None
    found = [
        *ledger.versions("demo"), ledger.version("demo", 1), ledger.published(entered.key), move,
        *ledger.line("demo"), *glance.versions, glance.last,
    ]  # fmt: skip
    assert {(str(each.window), each.window.key) for each in found if each} == {
        ("2026-03-29/2026-03-30", "2026-03-29")
    }
    assert str(Ledger(address).version("demo", 1).window) == "2026-03-28T23:00:00Z/2026-03-29T22:00:00Z"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE slc_move SET actor = 'mallory'",
        "DELETE FROM slc_move",
        "UPDATE slc_publication SET verdict = 'promote'",
        "DELETE FROM slc_publication",
    ],
)
def test_recorded_rows_cannot_be_changed(ledger: Ledger, statement: str) -> None:
    ledger.record(version(1))
    ledger.advance(ledger.head("demo"), version(1), kind="promotion", actor="ann", reason="good")
    with pytest.raises(RegistryError, match="append-only"), ledger.database.writing() as connection:
        connection.execute(text(statement))


def test_of_two_promotions_against_the_same_state_one_wins_and_the_other_gets_a_conflict(
    ledger: Ledger,
) -> None:
    for number in (1, 2):
        ledger.record(version(number))
    seen = ledger.head("demo")
    ledger.advance(seen, version(1), kind="promotion", actor="ann", reason="first")
    with pytest.raises(PromotionConflict, match="ann promoted version 1"):
        ledger.advance(seen, version(2), kind="promotion", actor="bob", reason="second")
    assert [move.to_version for move in ledger.line("demo")] == [1]


def test_of_many_concurrent_promotions_exactly_one_wins(address: str) -> None:
    ledger = Ledger(address)
    for number in range(1, 9):
        ledger.record(version(number))
    seen = ledger.head("demo")

    def attempt(number: int) -> bool:
        try:
            Ledger(address).advance(
                seen, version(number), kind="promotion", actor=f"p{number}", reason="race"
            )
        except PromotionConflict:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(attempt, range(1, 9)))
    assert sum(won) == 1
    assert ledger.head("demo").champion == won.index(True) + 1
    assert len(ledger.line("demo")) == 1


def test_a_conflict_leaves_no_trace(ledger: Ledger) -> None:
    ledger.record(version(1))
    ledger.record(version(2))
    with pytest.raises(PromotionConflict):
        ledger.advance(Head("demo", revision=7), version(1), kind="promotion", actor="ann", reason="stale")
    assert ledger.line("demo") == []
    assert ledger.head("demo") == Head("demo", 0, None, 2)


def test_many_processes_may_open_a_new_ledger_concurrently(address: str) -> None:
    with ThreadPoolExecutor(6) as pool:
        assert [found.deployments() for found in pool.map(Ledger, [address] * 6)] == [[]] * 6


def test_opening_again_keeps_everything(address: str) -> None:
    Ledger(address).record(version(1))
    assert Ledger(address).deployments() == ["demo"]


def test_a_ledger_of_a_newer_release_is_refused(address: str) -> None:
    with Ledger(address).database.writing() as connection:
        connection.execute(text("UPDATE slc_ledger_schema SET version_num = '9999'"))
    with pytest.raises(RegistryError, match="9999"):
        Ledger(address)


def test_a_key_has_one_active_version(ledger: Ledger) -> None:
    from dataclasses import replace

    ledger.record(version(1))
    with pytest.raises(RegistryError):
        ledger.record(replace(version(2), key=version(1).key))
    assert [found.number for found in ledger.versions("demo")] == [1]


def test_a_number_of_another_version_is_refused(ledger: Ledger) -> None:
    from dataclasses import replace

    ledger.record(version(1))
    with pytest.raises(RegistryError, match="do not belong together"):
        ledger.record(replace(version(1), key="f" * 64))


def test_an_unknown_version_is_named(ledger: Ledger) -> None:
    with pytest.raises(RegistryError, match="no version 4 of demo"):
        ledger.version("demo", 4)


def test_a_lock_has_one_holder_at_a_time(ledger: Ledger) -> None:
    other = Ledger(str(ledger.database.url.render_as_string(hide_password=False)))
    with ledger.database.lock("publish-demo"):
        with (
            pytest.raises(RegistryError, match="another process holds it"),
            other.database.lock("publish-demo", seconds=0.05),
        ):
            pass
        with other.database.lock("publish-other", seconds=0.05):
            pass
    with other.database.lock("publish-demo", seconds=1):
        pass


@pytest.mark.parametrize("bad", ["", "nonsense", "mysql://localhost/x", "sqlite://", "sqlite:///:memory:"])
def test_an_invalid_ledger_address_is_refused(bad: str) -> None:
    with pytest.raises(RegistryError, match="sqlite:///PATH"):
        Ledger(bad)


def test_a_password_is_not_shown() -> None:
    with pytest.raises(RegistryError) as caught:
        Ledger("postgresql://ann:hunter2@127.0.0.1:1/ledger")
    assert "hunter2" not in str(caught.value)
