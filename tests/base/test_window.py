"""Every event lies in exactly one window, for every cadence and time zone."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import available_timezones

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slc_ops.base.errors import SettingsError
from slc_ops.base.window import Cadence, Window, day_start

SECOND = timedelta(seconds=1)
ZONES = sorted(available_timezones())
timestamps = st.integers(31_536_000, 7_000_000_000).map(lambda s: datetime.fromtimestamp(s, UTC))
cadences = st.builds(
    Cadence,
    days=st.sampled_from([1, 7, 14, 28]),
    anchor=st.dates(date(1971, 1, 1), date(2199, 1, 1)),
    zone=st.sampled_from(ZONES),
)
BACK_PAST_MIDNIGHT = datetime(2009, 11, 1, 2, 45, tzinfo=UTC)  # 23:16 in Newfoundland, for the second time
DAY_LEFT_OUT = datetime(2011, 12, 30, 10, tzinfo=UTC)  # Samoa went from the 29th to the 31st


@given(cadences, timestamps)
@example(Cadence(1, zone="America/St_Johns"), BACK_PAST_MIDNIGHT)
@example(Cadence(1, zone="Pacific/Apia"), DAY_LEFT_OUT)
@example(Cadence(7, zone="Africa/Cairo"), datetime(2026, 4, 23, 22, tzinfo=UTC))
def test_every_event_lies_in_exactly_one_window(cadence: Cadence, timestamp: datetime) -> None:
    window = cadence.containing(timestamp)

    assert window.start <= timestamp < window.end
    after = cadence.containing(window.end)
    before = cadence.containing(window.start - timedelta(microseconds=1))
    assert (before.end, after.start) == (window.start, window.end)
    assert all(cadence.containing(edge) == window for edge in (window.start, window.end - SECOND))


@given(cadences, timestamps, st.integers(1, 6))
@example(Cadence(1, zone="America/St_Johns"), BACK_PAST_MIDNIGHT, 3)
def test_the_previous_windows_follow_the_grid_without_gaps(
    cadence: Cadence, timestamp: datetime, count: int
) -> None:
    window = cadence.containing(timestamp)
    found = [*window.before(count), window]

    assert all(cadence.holds(each) for each in found)
    assert all(a.end == b.start for a, b in pairwise(found))
    assert cadence.between(found[0].start, window.end) == found
    assert len(found) in (count, count + 1)  # one less where the zone skipped a day
    assert cadence.complete_at(window.end) == window


@given(cadences, timestamps)
def test_a_window_round_trips_through_text_key_and_json(cadence: Cadence, timestamp: datetime) -> None:
    window = cadence.containing(timestamp)

    assert cadence.parse(str(window)) == window
    assert window.key == str(window).split("/")[0]
    stored = Window.from_dict(window.as_dict())
    assert (stored, stored.before(2)) == (window, window.before(2))


@given(timestamps)
def test_weeks_in_utc_begin_on_monday(timestamp: datetime) -> None:
    midnight = datetime(timestamp.year, timestamp.month, timestamp.day, tzinfo=UTC)
    monday = midnight - timedelta(days=timestamp.weekday())
    week = Cadence().containing(timestamp)

    assert (week.start, week.end) == (monday, monday + timedelta(days=7))
    assert week.as_dict() == {"start": monday.isoformat(), "end": (monday + timedelta(days=7)).isoformat()}
    assert week.key == f"{monday:%Y-%m-%d}"
    assert [w.start for w in week.before(3)] == [monday - timedelta(days=7 * k) for k in (3, 2, 1)]


@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-10-26", 24)])
def test_a_day_in_berlin_has_23_24_or_25_hours(day: str, hours: int) -> None:
    window = Cadence(1, zone="Europe/Berlin").containing(day_start(date.fromisoformat(day), "Europe/Berlin"))

    assert window.end - window.start == timedelta(hours=hours)
    assert window.key == day


def test_the_span_of_several_windows_is_counted_from_the_anchor() -> None:
    daily = Cadence(1)
    span = daily.span(Window.parse("2026-01-07/2026-01-08"), 7)
    assert str(span) == "2026-01-05/2026-01-12"


def test_dates_outside_the_calendar_are_refused() -> None:
    with pytest.raises(SettingsError, match="leaves the calendar"):
        Cadence(28).containing(datetime(9999, 12, 31, tzinfo=UTC))
