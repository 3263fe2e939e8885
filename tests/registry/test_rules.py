"""The rules as pure functions."""

from datetime import UTC, datetime

import pytest

from slc_ops.registry.publication import ChampionChange
from slc_ops.registry.rules import rollback_target
from tests.registry.factory import WEEKS


def line(*steps: str) -> list[ChampionChange]:
    """``"+3"`` promotes version 3, ``"-1"`` rolls back to version 1."""
    moves: list[ChampionChange] = []
    for number, step in enumerate(steps, start=1):
        moves.append(
            ChampionChange(
                deployment="demo",
                revision=number,
                kind="promotion" if step[0] == "+" else "rollback",
                from_version=moves[-1].to_version if moves else None,
                to_version=int(step[1:]),
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
        ([], None),
        (["+1"], None),
        (["+1", "+2"], 1),
        (["+1", "+2", "-1"], None),
        (["+1", "+2", "+3", "-2"], 1),
        (["+1", "+2", "+3", "-2", "-1"], None),
        (["+1", "+2", "+3", "-1", "+4"], 1),
        (["+1", "+2", "-1", "-2"], 1),
        (["+1", "+2", "-1", "+2"], 1),
    ],
)
def test_a_rollback_takes_off_the_top_of_the_stack(steps: list[str], target: int | None) -> None:
    assert rollback_target(line(*steps)) == target
