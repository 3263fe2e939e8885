"""The decision in a few simulated worlds; benchmarks/decision_worlds.py runs a hundred of each kind."""

from itertools import pairwise

import pytest

from benchmarks.decision_worlds import WORLDS, regret, series, served, summary, tables

WINDOWS = 10


@pytest.mark.parametrize(("kind", "changes"), [("null_jump", "at_most_1"), ("calib_jump", "after_first")])
def test_a_jumping_level_promotes_no_item_method_and_causes_few_changes(kind, changes):
    found = summary([series(tables(WORLDS[kind], WINDOWS, seed)) for seed in range(3)])
    assert found["item_end"] == 0
    assert found[changes] == 1


def test_with_item_bias_an_item_method_serves_by_window_six_and_stays():
    for seed in range(3):
        path = served(series(tables(WORLDS["bias_jump"], WINDOWS, seed)))
        assert "slc_eb" in path[:6]
        assert path[-1] == "slc_eb"
        assert sum(a != b for a, b in pairwise(path)) <= 1


def test_regret_is_the_difference_to_the_best_of_three():
    entries = series(tables(WORLDS["bias_jump"], WINDOWS, 1))
    assert regret(entries, ["slc_eb"] * len(entries)) == 0
    frozen = [scored.difference("base", "slc_eb").d for scored in entries[1:]]
    assert regret(entries, ["base"] * len(entries)) == pytest.approx(sum(frozen) / len(frozen))


def test_a_window_after_a_gap_has_an_entry_if_a_refresh_would_make_one():
    parts = tables(WORLDS["bias"], 10, 1)
    whole, gapped = series(parts), series([None if 3 <= k < 8 else part for k, part in enumerate(parts)])
    assert (len(whole), len(gapped)) == (10, 5)
