"""The rules as pure functions."""

from datetime import UTC, datetime

import pytest

from slc_ops.base.errors import PromotionRefused
from slc_ops.registry.publication import ChampionChange
from slc_ops.registry.rules import rollback_target
from tests.registry.factory import WEEKS


def line(*steps: str) -> list[ChampionChange]:
    """``"+3"`` promotes version 3, ``"-1"`` rolls back to version 1, ``"0"`` retires the champion."""
    moves: list[ChampionChange] = []
    for number, step in enumerate(steps, start=1):
        moves.append(
            ChampionChange(
                deployment="demo",
                revision=number,
                kind={"+": "promotion", "-": "rollback", "0": "retirement"}[step[0]],
                from_version=moves[-1].to_version if moves else None,
                to_version=int(step[1:] or 0) or None,
                window=WEEKS[0],
                actor="ann",
                reason="test",
                override=None,
                evidence={},
                at=datetime.now(UTC),
            )
        )
    return moves


@pytest.mark.parametrize(
    ("steps", "target"),
    [
        (["+1", "+2"], 1),
        (["+1", "+2", "+3", "-2"], 1),
        (["+1", "+2", "+3", "-1", "+4"], 1),
        (["+1", "+2", "-1", "-2"], 1),
        (["+1", "+2", "-1", "+2"], 1),
        (["+1", "0"], 1),
        (["+1", "+2", "0"], 2),
        (["+1", "+2", "0", "-2"], 1),
        (["+1", "+2", "-1", "0"], 1),
        (["+1", "0", "+2", "+3"], 2),
    ],
)
def test_a_rollback_pops_the_stack_of_champions(steps: list[str], target: int) -> None:
    assert rollback_target("demo", line(*steps)) == target


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ([], "no earlier champion"),
        (["+1"], "no earlier champion"),
        (["+1", "+2", "-1"], "no earlier champion"),
        (["+1", "+2", "+3", "-2", "-1"], "no earlier champion"),
        (["+1", "0", "-1"], "no earlier champion"),
        (["+1", "0", "+2"], "before version 2 demo had no champion .* use retire"),
    ],
)
def test_a_rollback_without_an_earlier_champion_names_a_remedy(steps: list[str], why: str) -> None:
    with pytest.raises(PromotionRefused, match=why):
        rollback_target("demo", line(*steps))
