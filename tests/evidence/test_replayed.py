"""A replay's windows, contenders and JSON, from entries with known differences."""

from dataclasses import replace

import pytest

from slc_ops.evidence.replayed import SERVED, Contender, Replay, ReplayedWindow
from slc_ops.evidence.series import Entry, Paired, statistic
from tests.evidence.worlds import week


def entry(number: int, d: float) -> Entry:
    """A window in which the served parameters and ``slc`` differ from Platt by ``d``."""
    against = {name: {"platt": Paired(d, 0.001)} for name in (SERVED, "slc")}
    return Entry(week(number), 100, 10, 100.0, {"platt": 0.6, "slc": 0.6 + d}, against)


def window(number: int, d: float | None = -0.01, served: str = "base", then: str = "base") -> ReplayedWindow:
    found = None if d is None else entry(number, d)
    return ReplayedWindow(week(number), "refreshed", served, then, entry=found)


def test_a_change_has_a_direction_on_the_ladder() -> None:
    assert window(0).change is None
    assert window(0, served="base", then="slc").change == "promoted"
    assert window(0, served="slc", then="platt").change == "demoted"


@pytest.mark.parametrize(
    ("differences", "clearly"),
    [([-0.3, -0.3, -0.31], "better"), ([0.3, 0.3, 0.31], "worse"), ([-0.3, 0.3, 0.01], None)],
)
def test_a_contender_differs_clearly_if_its_interval_excludes_zero(
    differences: list[float], clearly: str | None
) -> None:
    found = statistic([entry(k, d) for k, d in enumerate(differences)], "slc", "platt")
    assert found is not None
    contender = Contender("slc", "platt", 3, 0.0, 0.0, 0.0, week(0), found)
    assert contender.clearly == clearly


def test_differences_and_the_json_have_every_scored_window() -> None:
    replay = Replay("demo", ("platt", "slc"), (window(0, None), window(1, -0.01), window(2, 0.03)))
    assert replay.differences("slc", "platt") == [(week(1), -0.01), (week(2), 0.03)]
    assert replay.differences("platt", "platt") == [(week(1), 0.0), (week(2), 0.0)]
    first, second, third = replay.as_dict()["windows"]
    assert (first["rows"], first["minus_platt"]) == (0, {})
    expected = {name: {"d": -0.01, "se": 0.001} for name in (SERVED, "slc")}
    assert (second["rows"], second["minus_platt"]) == (100, expected)
    assert third["minus_platt"]["slc"]["d"] == 0.03


@pytest.mark.parametrize(
    ("stopped", "windows"),
    [((2,), "100 of these rows, in one window,"), ((1, 3), "200 of these rows, in 2 windows,")],
)
def test_the_sentence_counts_the_rows_of_stopped_windows(stopped: tuple[int, ...], windows: str) -> None:
    def scored(number: int) -> ReplayedWindow:
        found = entry(number, -0.01)
        against = {name: {**pairs, "base": Paired(-0.02, 0.001)} for name, pairs in found.against.items()}
        return replace(window(number), status="scored", entry=replace(found, against=against))

    served = [scored(number) for number in range(1, 4)]
    plain = Replay("demo", ("platt", "slc"), tuple(served)).sentence
    assert plain.startswith("Over 3 scored windows the NLL of the served versions would differ by −0.0100")
    assert plain.endswith("by rows −0.0100 and −0.0200.")
    halted = [replace(each, status="stopped") if n in stopped else each for n, each in enumerate(served, 1)]
    replay = Replay("demo", ("platt", "slc"), (*halted, replace(window(4, None), status="stopped")))
    assert replay.sentence == f"{plain} {windows} gave no evidence."
    assert replay.rows_without_evidence == 100 * len(stopped)
