"""Which method serves: the five rules, their order, and the reasons."""

from dataclasses import replace

import pytest

from slc_ops.evidence.decision import decide_method, is_ahead
from slc_ops.evidence.differences import Differences
from slc_ops.evidence.series import Entry, Paired
from slc_ops.settings.blocks import Decision
from tests.evidence.worlds import week

RULES = Decision()
LISTED = ("base", "platt_eb", "slc_eb")


def series(*, eb=(), base=(), se=0.0005, hold_out=False, **others):
    """Entries from differences to platt_eb: of slc_eb, of the frozen model, and of other methods."""
    found = []
    for k in range(max(len(eb), len(base))):
        to_platt = {name: values[k] for name, values in {"slc_eb": eb, **others}.items() if k < len(values)}
        frozen = base[k] if k < len(base) else 0.01
        against = {"platt_eb": {"base": Paired(-frozen, se)}}
        for name, d in to_platt.items():
            against[name] = {"platt_eb": Paired(d, se), "base": Paired(d - frozen, se)}
            for other, e in to_platt.items():
                if other < name:
                    against[name][other] = Paired(d - e, se)
        found.append(Entry(week(k), 1000, 100, 1000.0, {}, against, hold_out=hold_out and k == 0))
    return found


def decided(entries, current="base", listed=LISTED, **asked):
    return decide_method(entries, current, listed, RULES, **asked)


def codes(decision):
    return {reason.code: reason.effect for reason in decision.reasons}


def test_platt_eb_is_the_first_champion_where_it_beats_the_frozen_model():
    found = decided(series(base=[0.02], hold_out=True))
    assert (found.method, found.change, codes(found)["platt_eb_better"]) == ("platt_eb", True, "pass")
    assert "the later part of the first window" in found.reasons[0].sentence


def test_platt_eb_serves_first_unless_one_window_is_clearly_against_it():
    found = decided(series(base=[-0.001]))
    assert (found.method, codes(found)["platt_eb_begins"]) == ("platt_eb", "pass")
    assert decided(series(base=[-0.1], se=0.001)).method == "base"


def test_the_frozen_model_keeps_serving_if_platt_eb_is_no_better():
    found = decided(series(base=[-0.001, -0.002]))
    assert (found.method, found.change) == ("base", False)
    assert "no better than the frozen model" in found.reasons[-1].sentence


def test_one_window_suffices_for_a_large_difference():
    plain = decided(series(eb=[-0.0016]), "platt_eb")
    assert (plain.method, codes(plain)["better"]) == ("slc_eb", "pass")
    near = decided(series(eb=[-0.0014]), "platt_eb")
    assert (near.method, codes(near)["too_early:slc_eb"]) == ("platt_eb", "note")
    small = decided(series(eb=[-0.0004], se=0.00001), "platt_eb")
    assert small.method == "platt_eb"


def test_the_hold_out_of_the_first_window_counts_as_one_window():
    assert decided(series(eb=[-0.02], hold_out=True), "base").method == "slc_eb"
    assert decided(series(eb=[-0.0014], hold_out=True), "base").method == "platt_eb"


def test_no_method_takes_over_before_enough_rows_and_users():
    few = [replace(each, rows=199) for each in series(eb=[-0.02])]
    found = decided(few, "base")
    assert (found.method, codes(found)) == ("base", {"too_few": "note"})
    alone = [replace(each, users=9) for each in series(eb=[-0.02])]
    assert decided(alone, "base").method == "base"
    assert decided([replace(each, rows=100) for each in series(eb=[-0.02] * 2)], "base").method == "slc_eb"
    assert decided(few, "slc_eb").method == "slc_eb"  # a champion is not replaced for that


def test_a_method_no_better_than_platt_eb_is_replaced_after_four_windows():
    values = [0.0004, -0.0002, 0.0001, 0.0001]
    assert decided(series(eb=values[:3]), "slc_eb").method == "slc_eb"
    found = decided(series(eb=values), "slc_eb")
    assert (found.method, codes(found)) == ("platt_eb", {"no_better": "pass"})
    earned = decided(series(eb=[-0.02] * 5 + values * 2), "slc_eb", evidence_windows=13)
    assert earned.method == "slc_eb"  # better in the long run


def test_a_small_steady_gain_wins_in_the_long_run():
    steady = [-0.0010, 0.0002, -0.0009, 0.0001] * 6
    assert decided(series(eb=steady, se=0.0001), "platt_eb").method == "platt_eb"
    assert decided(series(eb=steady, se=0.0001), "platt_eb", evidence_windows=24).method == "slc_eb"


def test_a_method_with_the_level_of_the_frozen_model_must_beat_that_model():
    """``rescal`` fits no line: where the level jumps, it is ahead of platt_eb just as the frozen model is."""
    listed = ("rescal",)
    jumps = series(base=[-0.01] * 4, rescal=[-0.01] * 4)
    assert decided(jumps, "base", listed).method == "base"
    assert decided(series(base=[-0.01] * 4, rescal=[-0.02] * 4), "base", listed).method == "rescal"


def test_a_longer_list_needs_more_standard_errors():
    values = [-0.0016, -0.0001, -0.0015, 0.0]
    names = ("rescal", "ridge", "slc", "slc_t", "slc_iso", "naive")
    assert decided(series(eb=values), "platt_eb").method == "slc_eb"
    many = series(eb=values, **{name: [0.001] * 4 for name in names})
    assert decided(many, "platt_eb", (*LISTED, *names)).method == "platt_eb"


def test_an_item_method_may_be_the_first_champion():
    assert decided(series(eb=[-0.02, -0.02]), "base").method == "slc_eb"


def test_a_gain_below_the_minimum_counts_only_if_clear():
    noise = decided(series(eb=[-0.0004, 0.0003, -0.0004, -0.0003]), "platt_eb")
    clear = decided(series(eb=[-0.0004] * 8, se=0.00001), "platt_eb")
    assert (noise.method, clear.method) == ("platt_eb", "slc_eb")
    assert "not clearly better than platt_eb" in noise.reasons[0].sentence


def test_a_change_by_effect_size_alone_states_that_the_interval_includes_0():
    large = decided(series(eb=[-0.012, -0.001, -0.009, 0.001]), "platt_eb")
    clear = decided(series(eb=[-0.012] * 8), "platt_eb")
    assert (large.method, clear.method) == ("slc_eb", "slc_eb")
    (by_size,) = [each.sentence for each in large.reasons if each.code == "better"]
    assert by_size.startswith("over 4 windows slc_eb was ahead of platt_eb by 0.00")
    assert "at least one standard error (0.00" in by_size
    assert "the least gain of 0.0005; the interval includes 0: NLL −0.00" in by_size
    found = large.statistics["slc_eb"]["platt_eb"]
    assert found.low < 0 < found.high
    (plain,) = [each.sentence for each in clear.reasons if each.code == "better"]
    assert "slc_eb was better than platt_eb: NLL" in plain
    behind = decided(series(eb=[0.012, 0.001, 0.009, -0.001]), "slc_eb")
    assert behind.method == "platt_eb"
    assert "was behind platt_eb by" in behind.reasons[0].sentence


def test_platt_eb_ahead_by_its_mean_alone_is_not_called_better():
    found = decided(series(base=[0.0001], se=0.01))
    assert (found.method, codes(found)["platt_eb_better"]) == ("platt_eb", "pass")
    text = found.reasons[0].sentence
    assert (
        "platt_eb was ahead of the frozen model by 0.0001. Against the frozen model the mean decides" in text
    )
    assert "the interval includes 0" in text


def test_variation_between_windows_is_no_evidence_however_small_the_error_over_users():
    assert decided(series(eb=[-0.05, 0.04, -0.03, 0.05], se=0.0001), "platt_eb").method == "platt_eb"


def test_a_champion_clearly_worse_than_platt_eb_is_replaced_in_the_same_refresh():
    found = decided(series(eb=[0.004, 0.003, 0.005, 0.004]), "slc_eb")
    assert (found.method, codes(found)) == ("platt_eb", {"worse_than_platt_eb": "pass"})


def test_one_bad_window_does_not_replace_the_champion():
    found = decided(series(eb=[-0.01] * 7 + [0.02]), "slc_eb")
    assert (found.method, codes(found)["stays"]) == ("slc_eb", "note")


def test_returning_to_the_frozen_model_needs_more_evidence():
    unclear, clear = [-0.004, 0.001, -0.006, 0.002], [-0.004] * 8
    assert decided(series(base=unclear), "platt_eb").method == "platt_eb"
    found = decided(series(base=clear), "platt_eb")
    assert (found.method, codes(found)["platt_eb_worse"]) == ("base", "pass")


def test_a_method_that_is_worse_than_the_frozen_model_since_it_took_over_retires():
    # Better before it served, worse by more than one error since: over all eight windows it is level.
    entries = series(base=[0.015, 0.014, 0.016, 0.015, -0.004, -0.006, -0.005, -0.004, -0.006, -0.005])
    long = {"evidence_windows": 13}
    assert decided(entries, "platt_eb", since=week(0), **long).method == "platt_eb"
    found = decided(entries, "platt_eb", since=week(3), **long)
    assert (found.method, codes(found)) == ("base", {"worse_since_start": "pass"})
    assert "since platt_eb took over, over 6 windows platt_eb was worse than" in found.reasons[0].sentence
    assert (found.since_start.windows, found.since_start.mean) == (6, pytest.approx(0.005))
    few = decided(entries[:-1], "platt_eb", since=week(3), **long)
    assert (few.method, few.since_start.windows) == ("platt_eb", 5)


def test_a_champion_that_is_no_longer_listed_is_not_retired_for_windows_of_platt_eb():
    # It served all the windows below; platt_eb, which replaces it, was behind the frozen model there.
    entries = series(base=[0.02] * 2 + [-0.005] * 6)
    asked = {"since": week(1), "evidence_windows": 13}
    assert codes(decided(entries, "platt_eb", **asked)) == {"worse_since_start": "pass"}
    found = decided(entries, "slc_t", **asked)
    assert (found.method, found.since_start) == ("platt_eb", None)
    assert "worse_since_start" not in codes(found)


def test_an_item_method_that_is_worse_than_the_frozen_model_retires_although_it_beats_platt_eb():
    wide = [-0.001, -0.009, -0.002, -0.008, -0.001, -0.009, -0.002, -0.008]
    assert decided(series(eb=[-0.001] * 8, base=wide), "slc_eb").method == "slc_eb"
    found = decided(series(eb=[-0.001] * 8, base=wide), "slc_eb", since=week(1))
    assert (found.method, codes(found)) == ("base", {"worse_since_start": "pass"})


def test_after_four_windows_platt_eb_returns_only_if_it_is_large_or_clear_better():
    unclear = [0.004, -0.003, 0.005, -0.002, 0.001]
    assert decided(series(base=unclear[:3])).method == "platt_eb"
    assert decided(series(base=unclear)).method == "base"
    assert decided(series(base=[0.004, 0.005, 0.003, 0.004, 0.005])).method == "platt_eb"


def test_an_item_method_that_is_no_better_than_the_frozen_model_does_not_replace_it():
    found = decided(series(eb=[-0.002] * 6, base=[-0.01, 0.004, -0.008, 0.004, -0.007, 0.003]))
    assert found.method == "base"
    assert "not clearly better than the frozen model" in found.reasons[0].sentence


def test_no_item_method_serves_where_the_frozen_model_is_clearly_best():
    # Better than platt_eb, and still clearly worse than the frozen model.
    found = decided(series(eb=[-0.002] * 8, base=[-0.02] * 8), "base")
    assert found.method == "base"
    assert decided(series(eb=[-0.002] * 8, base=[-0.02] * 8), "slc_eb").method == "base"


def test_ties_go_to_the_simpler_method():
    entries = series(eb=[-0.0100] * 4, slc=[-0.0097] * 4)
    listed = ("slc", "slc_eb")
    assert decided(entries, "platt_eb", listed).method == "slc"
    further = series(eb=[-0.0110] * 4, slc=[-0.0097] * 4)
    assert decided(further, "platt_eb", listed).method == "slc_eb"


def test_changes_between_item_methods_use_the_same_test():
    listed = ("slc", "slc_eb")
    assert decided(series(eb=[-0.0100] * 4, slc=[-0.0097] * 4), "slc", listed).method == "slc"
    assert decided(series(eb=[-0.0150] * 4, slc=[-0.0097] * 4), "slc", listed).method == "slc_eb"


def test_a_champion_whose_method_is_no_longer_listed_is_replaced_by_platt_eb():
    found = decided(series(eb=[0.0, 0.0]), "ridge")
    assert (found.method, found.change, codes(found)["unlisted"]) == ("platt_eb", True, "pass")
    assert decided(series(eb=[-0.02, -0.02]), "ridge").method == "slc_eb"


def test_an_excluded_method_has_a_reason():
    entries = series(eb=[-0.001] * 4, slc_t=[-0.05] * 4)
    found = decided(entries, "platt_eb", ("slc_t", "slc_eb"), may_not={"slc_t": "drift cannot be seen"})
    assert found.method == "slc_eb"
    assert any("drift cannot be seen" in reason.sentence for reason in found.reasons)


def test_without_any_window_nothing_is_decided():
    for current in ("base", "platt_eb", "slc_eb"):
        found = decided([], current)
        assert (found.method, codes(found)["no_evidence"]) == (current, "note")


def test_a_failed_method_is_left_out_with_its_reason():
    entries = [
        Entry(
            week(k),
            10,
            5,
            10.0,
            {},
            {"platt_eb": {"base": Paired(-0.1, 0.01)}},
            left_out={"slc_eb": "one class"},
        )
        for k in range(3)
    ]
    found = decided(entries, "platt_eb")
    assert found.method == "platt_eb"
    assert any("one class" in reason.sentence for reason in found.reasons)


@pytest.mark.parametrize("current", ["base", "platt_eb", "slc_eb"])
def test_the_same_evidence_changes_the_method_only_once(current):
    entries = series(eb=[-0.02] * 8)
    first = decided(entries, current)
    assert decided(entries, first.method).change is False


def test_platt_serves_only_if_listed():
    entries = series(platt=[-0.02] * 4, base=[0.01] * 4)
    assert decided(entries, listed=("slc_eb",)).method == "platt_eb"
    assert decided(entries, listed=("platt", "slc_eb")).method == "platt"
    gone = decided(entries, "platt", listed=("slc_eb",))
    assert (gone.method, codes(gone)["unlisted"]) == ("platt_eb", "pass")
    assert (
        "platt serves, but is not among the deployment's methods; platt_eb takes" in gone.reasons[0].sentence
    )


def test_platt_is_compared_whether_it_is_listed_or_not():
    found = decided(series(eb=[-0.02] * 4, platt=[-0.001] * 4), listed=("slc_eb",))
    assert found.statistics["slc_eb"]["platt"].mean == pytest.approx(-0.019)
    assert found.statistics["platt"]["platt_eb"].mean == pytest.approx(-0.001)


def test_a_small_but_clear_gain_brings_platt_eb_back():
    assert decided(series(base=[0.0003] * 8, se=1e-6)).method == "platt_eb"
    assert decided(series(base=[-0.0003] * 8, se=1e-6)).method == "base"


def test_platt_eb_does_not_return_for_good_windows_after_worse_ones():
    values = [-0.03] * 10 + [0.004] * 8
    assert decided(series(base=values), evidence_windows=8).method == "platt_eb"
    assert decided(series(base=values), evidence_windows=18).method == "base"


def test_a_difference_of_exactly_the_least_gain_and_one_error_is_large():
    seen = Differences((), LISTED, RULES, 8)
    least = RULES.min_gain
    assert seen.large(least, least)
    assert not seen.large(least, 1.01 * least)
    assert not seen.large(0.99 * least, 0.5 * least)


def test_a_simpler_method_that_is_exactly_the_least_gain_behind_is_a_tie():
    best, least = -(2.0**-6), 2.0**-11  # exact in binary
    entries = series(eb=[best] * 4, slc=[best + least] * 4)
    for rules, method in ((Decision(min_gain=least), "slc"), (Decision(min_gain=0.9 * least), "slc_eb")):
        assert decide_method(entries, "platt_eb", ("slc", "slc_eb"), rules).method == method


def test_a_method_is_ahead_only_with_evidence_that_it_is_better():
    assert is_ahead(series(eb=[-0.01] * 4), "slc_eb")
    assert not is_ahead(series(eb=[0.01] * 4), "slc_eb")
    assert not is_ahead(series(eb=[-0.01] * 4), "slc_t")


@pytest.mark.parametrize(
    ("values", "se", "says"),
    [([0.0] * 4, 0.0, "the same as"), ([0.01, -0.01], 0.001, "not clearly"), ([0.01] * 4, 0.001, "worse")],
)
def test_equal_scores_an_uncertain_and_a_worse_one_are_told_apart(values, se, says):
    found = decided(series(eb=values, se=se), "platt_eb")
    (reason,) = [each for each in found.reasons if each.code == "not_better:slc_eb"]
    assert f"slc_eb was {says}" in reason.sentence
