"""Lines over windows."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import pytest

from slc_ops.airflow.page.charts import Point, chart
from tests.plugins.school import window


def point(
    week: int, ours: float | None, platt: float | None, low: float | None = None, high: float | None = None
) -> Point:
    return Point(window(week), week + 1, "promote", ours, platt, low, high)


def test_higher_values_are_drawn_higher_and_inside_the_canvas() -> None:
    drawn = chart([point(0, 0.70, 0.68, 0.01, 0.03), point(1, 0.75, 0.69, 0.05, 0.07)], "AUC")

    assert drawn is not None
    first, second = drawn.marks
    assert first.y is not None
    assert second.y is not None
    assert second.y < first.y
    assert first.x < second.x
    ends = [v for mark in drawn.marks for v in (mark.y, mark.platt, mark.low, mark.high) if v is not None]
    assert all(0 <= v <= drawn.height for v in ends)


def test_the_line_is_what_was_served_and_the_frozen_model_stands_beside_it() -> None:
    served = {
        "method": "slc_eb", "version": "3", "nll": 0.52,
        "vs_platt": {"nll": {"estimate": -0.03, "low": -0.04, "high": -0.02}},
        "vs_base": {"nll": {"estimate": -0.08, "low": -0.09, "high": -0.07}},
    }  # fmt: skip
    version = SimpleNamespace(
        window=window(0),
        number=4,
        verdict="promote",
        metrics={"nll": 0.50, "platt_nll": 0.55, "served": served},
    )
    point = Point.of(version, "nll")

    assert (point.ours, point.span, point.backtest) == (0.52, pytest.approx((0.51, 0.53)), False)
    assert point.frozen == pytest.approx(0.60)
    drawn = chart([point], "NLL")
    assert drawn is not None
    assert drawn.marks[0].title.endswith("slc_eb served (version 3); NLL 0.5200, Platt 0.5500, frozen 0.6000")
    assert drawn.frozen
    small = chart([point], "NLL", height=64)
    assert small is not None
    assert not small.frozen


def test_a_version_that_does_not_say_what_was_served_is_a_hollow_dot() -> None:
    version = SimpleNamespace(
        window=window(0), number=4, verdict="promote", metrics={"nll": 0.5, "platt_nll": 0.6}
    )
    drawn = chart([Point.of(version, "nll")], "NLL")

    assert drawn is not None
    assert drawn.marks[0].verdict == "backtest"
    assert "backtest of version 4" in drawn.marks[0].title


def test_the_whisker_spans_platt_plus_the_interval_of_the_difference() -> None:
    drawn = chart([point(0, 0.70, 0.68, 0.02, 0.02)], "AUC")

    assert drawn is not None
    (mark,) = drawn.marks
    assert mark.low == mark.high == mark.y


def test_a_week_without_a_figure_leaves_a_gap_and_no_figures_no_chart() -> None:
    drawn = chart([point(0, 0.7, 0.6), point(1, None, 0.6), point(2, 0.7, 0.6)], "AUC")

    assert drawn is not None
    assert len(drawn.ours) == 2
    (platt,) = drawn.platt
    assert len(platt.split()) == 3
    assert chart([point(0, None, None)], "AUC") is None
    assert chart([], "AUC") is None


@pytest.mark.parametrize(("low", "high"), [(0.5, 0.50001), (0.76, 0.83), (0.1, 9.7), (-0.3, 0.2), (0.0, 1.0)])
def test_the_scale_has_a_few_round_values_inside_and_the_ends_name_their_weeks(
    low: float, high: float
) -> None:
    drawn = chart([point(0, high, low), point(1, high, low)], "AUC")

    assert drawn is not None
    assert 2 <= len(drawn.ticks) <= 6
    assert len({text for _, text in drawn.ticks}) == len(drawn.ticks)
    assert all(0 <= y <= drawn.height for y, _ in drawn.ticks)
    assert [(text, anchor) for _, text, anchor in drawn.edges] == [("5 Jan", "start"), ("12 Jan", "end")]


def test_a_lone_week_shows_platt_as_a_dash_and_its_date_in_the_middle() -> None:
    drawn = chart([point(0, 0.7, 0.6)], "AUC")

    assert drawn is not None
    (dash,) = drawn.platt
    assert len(dash.split()) == 2
    assert [(text, anchor) for _, text, anchor in drawn.edges] == [("5 Jan", "middle")]


def test_missing_weeks_are_not_drawn_over_and_take_their_room() -> None:
    drawn = chart([point(week, 0.7, 0.6) for week in (0, 1, 2, 6, 7)], "AUC")

    assert drawn is not None
    assert [len(piece.split()) for piece in drawn.ours] == [3, 2]
    assert [len(piece.split()) for piece in drawn.platt] == [3, 2]
    steps = [right.x - left.x for left, right in itertools.pairwise(drawn.marks)]
    assert steps[2] == pytest.approx(4 * steps[0], abs=0.3)


def test_no_line_leads_from_what_a_backtest_scored_to_what_was_served() -> None:
    """A frozen model that served would make the line fall just when a change is to be approved."""
    scored = [replace(point(week, 0.80, 0.70), backtest=True) for week in (0, 1)]
    drawn = chart([*scored, point(2, 0.70, 0.70), point(3, 0.71, 0.70)], "AUC")
    assert drawn is not None
    assert [len(piece.split()) for piece in drawn.ours] == [2, 2]
    assert [len(piece.split()) for piece in drawn.platt] == [4]
