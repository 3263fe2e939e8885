"""A stop needs history, a change repeated in the next window is accepted, and no stopped window is a
baseline.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slc_ops.base.errors import ValidationStopped
from slc_ops.base.window import Window
from slc_ops.intake.extract import extract
from slc_ops.intake.manifest import WindowManifest
from slc_ops.quality.history import History, reach
from slc_ops.quality.result import ValidationResult
from slc_ops.quality.verdict import validate
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.sources import LakeSource

FIRST = Window.parse("2026-01-05/2026-01-12")
MONDAY = Window.parse("2026-01-05/2026-01-06")


class Log:
    """A lake with windows of a given number of rows and items at a label rate."""

    def __init__(self, home: Path, first: Window) -> None:
        self.home, self.last = home, first.before(1)[0]
        self.deployment = Deployment(
            source=LakeSource(path="lake"), window={"days": len(first.dates), "anchor": first.dates[0]}
        )
        (home / "lake").mkdir()
        self._history = History(self.manifest_of, self.deployment.quality)

    def add(self, rows: int, item: int = 0, rate: float = 0.5) -> Window:
        """Append a window."""
        start = self.last.end
        self.last = Window(start, start + (self.last.end - self.last.start))
        if rows:
            rng = np.random.default_rng(len(list((self.home / "lake").iterdir())))
            step = (self.last.end - start) / rows
            label = (np.arange(rows) % 100 < 100 * rate).astype(int)
            table = {
                "event_id": [f"{self.last.key}-{k}" for k in range(rows)],
                "event_time": pa.array([start + k * step for k in range(rows)], pa.timestamp("us", "UTC")),
                "user_id": [f"u{k % 40}" for k in range(rows)],
                "item_id": [f"i{item + k % 7}" for k in range(rows)],
                "label": label,
                "logit": rng.normal(size=rows) + label,
            }
            pq.write_table(pa.table(table), self.home / "lake" / f"{self.last.key}.parquet")
        return self.last

    def manifest_of(self, window: Window) -> WindowManifest:
        return extract(self.deployment, window, self.home / "windows", home=self.home)

    def verdict(self, window: Window) -> ValidationResult | str:
        """The result, or the message of a stop; also checks the verdicts of the baseline windows."""
        baseline = self._history.baseline(window)
        self.compared = [each.window for each in baseline.windows]
        self.weekdays = baseline.weekdays
        try:
            return validate(self.manifest_of(window), baseline, self.deployment.quality, suite=False)
        except ValidationStopped as stopped:
            return stopped.kept

    def run(self, windows: Sequence[Mapping[str, float]]) -> list[str]:
        """The codes per window that stop it, or that exceed a stop limit and are accepted."""
        found, stopped = [], set()
        for each in windows:
            window = self.add(**each)  # type: ignore[arg-type]
            if not each["rows"]:
                found.append("empty")
                continue
            verdict = self.verdict(window)
            assert not stopped & set(self.compared)
            if isinstance(verdict, str):
                stopped.add(window)
                found.append(f"stopped {verdict.split(': ')[1]}")
            else:
                soft = [one for one in verdict.findings if "only a warning" in one.expected]
                lasting = [one for one in verdict.findings if "lasting change" in one.expected]
                empty = [one for one in verdict.findings if one.code == "history_empty"]
                found.append(" ".join(one.code for one in (*empty, *soft, *lasting)))
        return found


@pytest.fixture
def weekly(tmp_path: Path) -> Log:
    return Log(tmp_path, FIRST)


def rows(*counts: int) -> list[dict[str, float]]:
    return [{"rows": count} for count in counts]


def test_a_season_that_starts_with_182_rows_warns_and_never_stops(weekly: Log) -> None:
    season = [{"rows": 182}, {"rows": 182 * 22, "item": 40}, {"rows": 182 * 36, "item": 40}]
    found = weekly.run([*season, *rows(182 * 36)])
    assert found == ["history_empty", "rows_unusual items_unseen", "", ""]


def test_a_log_that_starts_on_a_sunday_is_not_stopped(weekly: Log) -> None:
    found = weekly.run(rows(200, 1400, 1400, 1400, 1400))
    assert found == ["history_empty", "rows_unusual", "", "", ""]


def test_growth_stops_once_and_is_accepted_the_second_time(weekly: Log) -> None:
    found = weekly.run(rows(200, 200, 200, 1600, 1600, 1600, 1600, 1600))
    assert found[3:] == ["stopped rows_unusual", "rows_unusual", "rows_unusual", "", ""]


def test_a_single_outlier_stops_and_later_windows_are_compared_without_it(weekly: Log) -> None:
    usual = rows(200, 200, 200)
    found = weekly.run([*usual, {"rows": 200, "rate": 0.97}, *usual, {"rows": 200, "rate": 0.97}])
    assert found[3:] == ["stopped label_rate_leap", "", "", "", "stopped label_rate_leap"]


def test_a_lasting_change_of_items_stops_once(weekly: Log) -> None:
    new = [{"rows": 200, "item": 50}] * 3
    assert weekly.run([*rows(200, 200, 200), *new])[3:] == ["stopped items_unseen", "items_unseen", ""]


def test_a_log_whose_windows_share_few_items_is_compared_with_its_own_share(weekly: Log) -> None:
    # Six of seven items are new in every window: above the limit, and usual here. Renamed ids still stop.
    sparse = [{"rows": 200, "item": 6 * number} for number in range(6)]
    found = weekly.run([*sparse, {"rows": 200, "item": 1000}])
    assert found == ["history_empty", "items_unseen", "", "", "", "", "stopped items_unseen"]


def test_an_empty_history_after_a_gap_or_stops_is_reported(weekly: Log) -> None:
    assert weekly.run(rows(200, 200, 200, 0, 0, 0, 0, 0, 200, 200))[-2:] == ["history_empty", ""]


def test_a_broken_window_does_not_confirm_a_change(weekly: Log) -> None:
    """A week of one class with ten times the rows is invalid; the next week of ten times the rows counts as
    the first.
    """
    found = weekly.run([*rows(200, 200, 200), {"rows": 2000, "rate": 1.0}, *rows(2000, 2000)])
    assert found[3:] == ["stopped label_one_class", "stopped rows_unusual", "rows_unusual"]


def test_repeated_events_stop_and_are_no_baseline(weekly: Log) -> None:
    weekly.run(rows(200, 200))
    old = pq.read_table(weekly.home / "lake" / f"{weekly.last.key}.parquet")
    again = weekly.add(200)
    path = weekly.home / "lake" / f"{again.key}.parquet"
    pq.write_table(pq.read_table(path).set_column(0, "event_id", old["event_id"]), path)
    assert "event_id_seen_before" in str(weekly.verdict(again))
    weekly.verdict(weekly.add(200))
    assert again not in weekly.compared
    assert len(weekly.compared) == 2


@pytest.mark.slow
def test_days_are_compared_with_the_same_weekday(tmp_path: Path) -> None:
    daily = Log(tmp_path, MONDAY)
    week = [600] * 5 + [100, 100]  # six times as many on working days
    found = daily.run(rows(*week * 4))
    assert [each for each in found if "stopped" in each] == []
    assert set(found[7:]) == {""}  # from the second week on only equal weekdays are compared
    monday = daily.verdict(daily.add(600))
    assert isinstance(monday, ValidationResult)
    assert monday.findings == []
    assert [str(each.window.dates[0]) for each in daily.weekdays or ()] == [
        "2026-01-05", "2026-01-12", "2026-01-19", "2026-01-26",
    ]  # fmt: skip
    for _ in range(4):
        daily.add(600)
    assert "rows_unusual" in str(daily.verdict(daily.add(600)))  # a Saturday like a Monday


def test_the_history_of_a_verdict_is_limited() -> None:
    assert (reach(FIRST), reach(MONDAY)) == (12, 56)
    assert MONDAY.before(reach(MONDAY))[0].end - MONDAY.start == -timedelta(days=55)
