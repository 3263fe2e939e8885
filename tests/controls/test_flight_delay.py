"""The year of the flight control fails if the served probabilities are too bad."""

from datetime import timedelta

import pytest

from slc_ops.base.window import Window
from slc_ops.controls.flight_delay import check_year
from slc_ops.evidence.replayed import Replay, ReplayedWindow
from slc_ops.evidence.series import Entry, Paired

FIRST = Window.parse("2026-01-05/2026-01-12")


def year(served: float, weekly: float, frozen: float) -> Replay:
    """Ten windows in which the served probabilities, slc_eb and the frozen model differ from Platt by these
    amounts.
    """
    windows = []
    for k in range(10):
        shift = timedelta(days=7 * k)
        window = Window(FIRST.start + shift, FIRST.end + shift)
        against = {
            "platt": {"base": Paired(-frozen, 0.001)},
            "slc_eb": {"base": Paired(weekly - frozen, 0.001), "platt": Paired(weekly, 0.001)},
            "served": {"base": Paired(served - frozen, 0.001), "platt": Paired(served, 0.001)},
        }
        entry = Entry(window, 100, 10, 100.0, {"platt": 0.5}, against)
        windows.append(ReplayedWindow(window, "scored", "slc_eb", "slc_eb", "renewed", entry))
    return Replay("year", ("base", "platt", "slc_eb"), tuple(windows))


@pytest.mark.parametrize(
    ("served", "weekly", "frozen", "passed"),
    [
        (-0.009, -0.010, 0.02, [True, True, True]),
        (-0.007, -0.010, 0.02, [True, True, False]),
        (0.001, -0.010, 0.02, [False, True, False]),
        (-0.009, -0.010, -0.02, [True, False, True]),
        (0.0, 0.004, 0.02, [True, True, True]),
    ],
)
def test_served_probabilities_are_compared_with_platt_the_frozen_model_and_the_best_method(
    served: float, weekly: float, frozen: float, passed: list[bool]
) -> None:
    found = check_year("arm", year(served, weekly, frozen))
    assert [check.passed for check in found] == passed
    assert all(check.observed and check.expected for check in found)
