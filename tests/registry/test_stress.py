"""A short stress test; the long one is benchmarks/registry_stress.py."""

from pathlib import Path

import pytest

from benchmarks.registry_stress import prepare, problems, run

pytestmark = pytest.mark.services


@pytest.mark.faults(
    "processes publish and promote at random at the same time",
    "ledger and aliases agree",
)
def test_random_concurrent_publications_and_promotions_leave_a_consistent_registry(tmp_path: Path) -> None:
    result = run(prepare(tmp_path, seconds=15, processes=4))
    assert problems(result) == []
    assert result["moves_in_ledger"] >= 1
    assert sum(result["moves"].values()) >= 4 * 15
