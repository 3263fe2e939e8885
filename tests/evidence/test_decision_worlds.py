"""The decision in simulated worlds, in short; benchmarks/decision_worlds.py has a hundred of each kind."""

from itertools import pairwise

import pytest

from benchmarks.decision_worlds import WORLDS, series, served, summary, tables

WINDOWS = 10


@pytest.mark.parametrize("kind", ["null_jump", "calib_jump"])
def test_a_level_that_jumps_promotes_no_item_method_and_changes_little(kind):
    found = summary([series(tables(WORLDS[kind], WINDOWS, seed)) for seed in range(3)], WINDOWS)
    assert found["item_end"] == 0
    assert found["at_most_1"] == 1


def test_with_item_bias_an_item_method_serves_by_window_six_and_stays():
    for seed in range(3):
        path = served(series(tables(WORLDS["bias_jump"], WINDOWS, seed)))
        assert "slc_eb" in path[:6]
        assert path[-1] == "slc_eb"
        assert sum(a != b for a, b in pairwise(path)) <= 1
