"""Since when a method serves, across renewals of its parameters."""

from datetime import UTC, datetime

from slc_ops.base.window import WEEK, Window
from slc_ops.registry import ChampionChange, Version
from slc_ops.registry.ledger import Head
from slc_ops.registry.overview import Glance

FIRST = Window.parse("2026-01-05/2026-01-12")
AT = datetime(2026, 4, 1, tzinfo=UTC)


def version(number: int, method: str) -> Version:
    window = Window(FIRST.start + number * WEEK, FIRST.end + number * WEEK)
    return Version("demo", number, method, window, "promote", {}, f"run-{number}", f"key-{number}", AT)


def moves(*numbers: int | None) -> list[ChampionChange]:
    return [
        ChampionChange(
            deployment="demo", revision=k, at=AT, kind="promotion", actor="ann", reason="",
            from_version=None, to_version=number, window=FIRST, override=None, evidence={},
        )
        for k, number in enumerate(numbers, 1)
    ]  # fmt: skip


VERSIONS = [version(1, "platt"), version(2, "slc_eb"), version(3, "slc_eb"), version(4, "slc_eb")]


def since(champion: int, *line: int | None) -> int:
    found = Glance(Head("demo", len(line), champion), VERSIONS, moves(*line)).serves
    assert found is not None
    assert found["parameters"] == VERSIONS[champion - 1].window.as_dict()
    return next(v.number for v in VERSIONS if v.window.as_dict() == found["since"])


def test_the_start_changes_with_the_method_and_not_with_renewals() -> None:
    assert since(4, 1, 2, 3, 4) == 2
    assert since(1, 1) == 1


def test_a_retirement_ends_the_service_of_a_method() -> None:
    assert since(4, 1, 2, None, 4) == 4


def test_a_rollback_to_older_parameters_keeps_the_method() -> None:
    assert since(2, 1, 2, 3, 2) == 2


def test_without_a_champion_no_method_serves() -> None:
    assert Glance(Head("demo", 2), VERSIONS, moves(1, None)).serves is None
