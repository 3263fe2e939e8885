"""Runs of a deployment without a cron expression refresh their data interval."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from airflow.sdk import timezone
from airflow.timetables.base import DataInterval, TimeRestriction

from slc_ops.airflow.timetable import WindowTimetable
from slc_ops.base.window import Cadence

BERLIN = Cadence(1, zone="Europe/Berlin")
FORTNIGHT = Cadence(14, date(2026, 1, 5))


def at(text: str) -> Any:
    return timezone.coerce_datetime(datetime.fromisoformat(text).replace(tzinfo=UTC))


def runs(timetable: WindowTimetable, first: str, count: int) -> list[tuple[str, str]]:
    """The first runs in catch-up: their data intervals and when they run."""
    found, last = [], None
    for _ in range(count):
        restriction = TimeRestriction(at(first), None, catchup=True)
        info = timetable.next_dagrun_info(last_automated_data_interval=last, restriction=restriction)
        last = info.data_interval
        span = f"{last.start:%Y-%m-%dT%H}/{last.end:%Y-%m-%dT%H}"
        found.append((span, f"{info.run_after:%Y-%m-%dT%H}"))
    return found


def test_weekly_windows_equal_those_of_a_monday_cron_expression() -> None:
    from airflow.timetables.interval import CronDataIntervalTimetable

    cron, ours = CronDataIntervalTimetable("0 0 * * 1", "UTC"), WindowTimetable(Cadence())
    for earliest in ("2026-01-05", "2026-01-07T12:00"):
        restriction = TimeRestriction(at(earliest), None, catchup=True)
        last = None
        for _ in range(4):
            question = {"last_automated_data_interval": last, "restriction": restriction}
            expected = cron.next_dagrun_info(**question)
            assert ours.next_dagrun_info(**question) == expected
            last = expected.data_interval
    for timestamp in ("2026-02-23", "2026-02-23T00:00:01", "2026-03-01T23:59"):
        manual = {"run_after": at(timestamp)}
        assert ours.infer_manual_data_interval(**manual) == cron.infer_manual_data_interval(**manual)
    newest = {
        "last_automated_data_interval": None,
        "restriction": TimeRestriction(at("2026-01-05"), None, False),
    }
    assert ours.next_dagrun_info(**newest) == cron.next_dagrun_info(**newest)


def test_daily_windows_begin_and_end_at_local_midnight() -> None:
    assert runs(WindowTimetable(BERLIN), "2026-03-27T23:00", 3) == [
        ("2026-03-27T23/2026-03-28T23", "2026-03-28T23"),
        ("2026-03-28T23/2026-03-29T22", "2026-03-29T22"),
        ("2026-03-29T22/2026-03-30T22", "2026-03-30T22"),
    ]


def test_a_two_week_window_keeps_its_grid_and_waits_for_labels() -> None:
    timetable = WindowTimetable(FORTNIGHT, lag=timedelta(days=3))
    assert runs(timetable, "2026-01-07", 2) == [
        ("2026-01-19T00/2026-02-02T00", "2026-02-05T00"),
        ("2026-02-02T00/2026-02-16T00", "2026-02-19T00"),
    ]
    early, late = (
        timetable.infer_manual_data_interval(run_after=at(f"2026-02-{day}")) for day in ("04", "05")
    )
    assert (early.end, late.end) == (at("2026-01-19"), at("2026-02-02"))


def test_daily_windows_may_be_refreshed_weekly() -> None:
    assert runs(WindowTimetable(Cadence(1), every=7), "2026-01-05", 2) == [
        ("2026-01-05T00/2026-01-12T00", "2026-01-12T00"),
        ("2026-01-12T00/2026-01-19T00", "2026-01-19T00"),
    ]


def test_after_a_change_of_cadence_no_run_overlaps_the_last_window() -> None:
    last = DataInterval(at("2026-01-19"), at("2026-01-26"))  # a week that ends in the middle of a fortnight
    info = WindowTimetable(FORTNIGHT).next_dagrun_info(
        last_automated_data_interval=last, restriction=TimeRestriction(at("2026-01-05"), None, catchup=True)
    )
    assert (info.data_interval.start, info.data_interval.end) == (at("2026-02-02"), at("2026-02-16"))


def test_nothing_runs_after_the_end_or_without_a_start() -> None:
    timetable = WindowTimetable(Cadence())
    for earliest, latest in ((None, None), (at("2026-01-05"), at("2026-01-04"))):
        restriction = TimeRestriction(earliest, latest, catchup=True)
        assert timetable.next_dagrun_info(last_automated_data_interval=None, restriction=restriction) is None


@pytest.mark.parametrize(
    "timetable", [WindowTimetable(BERLIN, timedelta(hours=6), 7), WindowTimetable(FORTNIGHT)]
)
def test_the_timetable_survives_serialisation(timetable: WindowTimetable) -> None:
    from airflow.serialization.decoders import decode_timetable
    from airflow.serialization.encoders import encode_timetable

    again = decode_timetable(encode_timetable(timetable))
    assert isinstance(again, WindowTimetable)
    assert again.serialize() == timetable.serialize()
    assert again.summary == timetable.summary
