"""Formatting of figures."""

from types import SimpleNamespace

import pytest

from slc_ops.evidence.uncertainty import Interval
from slc_ops.reporting.style import ACCENT, BAD, MUTED, tone
from slc_ops.reporting.tables import slice_rows, worst_group


def test_an_interval_is_shown_with_signs():
    assert Interval(-0.02, -0.03, 0.01).text() == "−0.0200 [−0.0300, +0.0100]"


def test_without_an_interval_the_reason_is_shown():
    assert Interval(0.02, reason="six users").text() == "+0.0200 (six users)"
    assert Interval(None, reason="one class").text() == "one class"
    assert Interval(None).text() == "–"


@pytest.mark.parametrize(
    ("found", "better", "colour"),
    [
        (Interval(0.2, 0.1, 0.3), 1, ACCENT),
        (Interval(0.2, 0.1, 0.3), -1, BAD),
        (Interval(-0.2, -0.3, -0.1), -1, ACCENT),
        (Interval(0.0, -0.1, 0.1), 1, MUTED),
        (Interval(0.2), 1, MUTED),
    ],
)
def test_a_difference_is_coloured_only_if_its_interval_excludes_0(found, better, colour):
    assert tone(found, better) == colour


def test_the_worst_group_is_shown_with_platts_figure_of_that_group():
    def group(name, n, nll):
        return {"kind": "group", "name": name, "label": name, "n": n, "nll": nll, "reasons": {}}

    def scored(*slices):
        return SimpleNamespace(metrics=object(), slices=[*slices])

    ours = scored(group("small", 99, 0.9), group("large", 100, 0.6), group("calm", 500, 0.5))
    platts = scored(group("small", 99, 0.95), group("large", 100, 0.62), group("calm", 500, 0.7))
    evidence = SimpleNamespace(newest={"slc": ours, "platt": platts}, slice_differences={})
    found = worst_group(slice_rows(evidence, "slc"))
    assert (found["ours"], found["platt"]) == (group("large", 100, 0.6), group("large", 100, 0.62))
