"""Windows of time: half-open, on a grid of local days, from the data interval and never from the clock."""

import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from slc_ops.base.errors import SettingsError
from slc_ops.base.json_form import OwnForm

WEEK = timedelta(days=7)
MONDAY = date(1970, 1, 5)
"""The default anchor: windows of several weeks are counted from this Monday."""


@dataclass(frozen=True, order=True)
class Window(OwnForm):
    """The half-open interval ``[start, end)``, stored in UTC. ``zone`` defines its local days.

    Two windows with the same bounds are equal, whatever their zones.

    >>> window = Window.parse("2026-01-05/2026-01-12")
    >>> str(window)
    '2026-01-05/2026-01-12'
    >>> [str(w) for w in window.before(2)]
    ['2025-12-22/2025-12-29', '2025-12-29/2026-01-05']
    >>> window.key
    '2026-01-05'

    A week with the change to summer time is an hour shorter; the weeks around it do not shift:

    >>> spring = Window.parse("2026-03-23/2026-03-30", "Europe/Berlin")
    >>> spring.end - spring.start, [str(w) for w in spring.before(1)]
    (datetime.timedelta(days=6, seconds=82800), ['2026-03-16/2026-03-23'])
    """

    start: datetime
    end: datetime
    zone: str = field(default="UTC", compare=False)

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            timestamp: datetime = getattr(self, name)
            if timestamp.tzinfo is None:
                raise SettingsError(
                    f"window {name} {timestamp.isoformat()} has no time zone; windows are in UTC"
                )
            object.__setattr__(self, name, timestamp.astimezone(UTC))
        if self.start >= self.end:
            raise SettingsError(f"window {self} is empty or reversed: its start must lie before its end")

    @classmethod
    def parse(cls, text: str, zone: str = "UTC") -> "Window":
        """Parse ``START/END``; dates mean midnight in the zone."""
        parts = text.split("/")
        if len(parts) != 2:
            raise SettingsError(f"window {text!r} is not START/END, for example 2026-01-05/2026-01-12")
        return cls(parse_timestamp(parts[0], zone), parse_timestamp(parts[1], zone), zone)

    @property
    def key(self) -> str:
        """Return a name for directories: the start's date, with the time when it is not midnight."""
        return _short(self.start, self.zone).replace(":", "")

    @property
    def called(self) -> str:
        """Return the noun for messages: "day", "week" or "window"."""
        return {1: "day", 7: "week"}.get(len(self.dates), "window")

    @property
    def dates(self) -> list[date]:
        """Return the local days that overlap the window, in order."""
        first = self.start.astimezone(ZoneInfo(self.zone)).date()
        last = (self.end - timedelta(microseconds=1)).astimezone(ZoneInfo(self.zone)).date()
        return [first + timedelta(days=k) for k in range((last - first).days + 1)]

    def before(self, count: int) -> list["Window"]:
        """Return the ``count`` preceding windows of the same length, oldest first.

        The length is counted in local days for a window of whole local days, in seconds otherwise.
        """
        first, last = _day_at(self.start, self.zone), _day_at(self.end, self.zone)
        try:
            if first is None or last is None:
                length = self.end - self.start
                edges = [self.start - k * length for k in range(count, 0, -1)]
            else:
                days = last - first
                edges = [day_start(first - k * days, self.zone) for k in range(count, 0, -1)]
        except OverflowError:
            raise SettingsError(
                f"window {self} has no {count} windows before it: the calendar begins with the year 1"
            ) from None
        return _between([*edges, self.start], self.zone)

    @property
    def bounds(self) -> dict[str, str]:
        """Return start and end in ISO 8601 with offset."""
        return {"start": self.start.isoformat(), "end": self.end.isoformat()}

    def as_dict(self) -> dict[str, str]:
        """Return the JSON form: the bounds, and the zone unless it is UTC."""
        return self.bounds if self.zone == "UTC" else {**self.bounds, "zone": self.zone}

    @classmethod
    def from_dict(cls, value: dict[str, str]) -> "Window":
        """Parse the output of :meth:`as_dict`."""
        return cls(parse_timestamp(value["start"]), parse_timestamp(value["end"]), value.get("zone", "UTC"))

    def __str__(self) -> str:
        return f"{_short(self.start, self.zone)}/{_short(self.end, self.zone)}"


@dataclass(frozen=True)
class Cadence:
    """The grid of windows: ``days`` local days each, one of them starting on ``anchor``.

    >>> from datetime import UTC, datetime
    >>> Cadence().name, str(Cadence().containing(datetime(2026, 1, 7, tzinfo=UTC)))
    ('week', '2026-01-05/2026-01-12')
    >>> daily = Cadence(days=1, zone="Europe/Berlin")
    >>> str(daily.containing(datetime(2026, 3, 28, 23, 30, tzinfo=UTC)))
    '2026-03-29/2026-03-30'
    """

    days: int = 7
    anchor: date = MONDAY
    zone: str = "UTC"

    @property
    def name(self) -> str:
        """Return the noun for one window: "day", "week" or "N-day window"."""
        return {1: "day", 7: "week"}.get(self.days, f"{self.days}-day window")

    @property
    def described(self) -> str:
        """Return the start and end of the windows, in words.

        >>> Cadence().described, Cadence(1, zone="Europe/Berlin").described
        ('Monday 00:00 UTC to the next', 'midnight Europe/Berlin to the next')
        >>> Cadence(14).described
        'Monday 00:00 UTC, every 14 days from 1970-01-05 on'
        """
        if self.days == 1:
            return f"midnight {self.zone} to the next"
        if self.days == 7:
            return f"{self.anchor:%A} 00:00 {self.zone} to the next"
        return f"{self.anchor:%A} 00:00 {self.zone}, every {self.days} days from {self.anchor} on"

    def containing(self, timestamp: datetime) -> Window:
        """Return the window of the grid that contains ``timestamp``."""
        try:
            day = timestamp.astimezone(ZoneInfo(self.zone)).date()
            first = day - timedelta(days=(day - self.anchor).days % self.days)
            # After a clock change from 00:01 to 23:01 the local date is yesterday, but the new day has begun.
            while (end := day_start(self._next(first), self.zone)) <= timestamp:
                first = self._next(first)
            return Window(day_start(first, self.zone), end, self.zone)
        except OverflowError:
            raise SettingsError(f"the {self.name} of {timestamp.isoformat()} leaves the calendar") from None

    def complete_at(self, timestamp: datetime) -> Window:
        """Return the last window that has ended at ``timestamp``."""
        return self.containing(self.containing(timestamp).start - timedelta(microseconds=1))

    def between(self, start: datetime, end: datetime) -> list[Window]:
        """Return the windows from ``start`` to ``end``, both edges of the grid, oldest first."""
        edges, day = [start], _day_at(start, self.zone)
        while day is not None and edges[-1] < end:
            day = self._next(day)
            edges.append(day_start(day, self.zone))
        return _between(edges, self.zone)

    def holds(self, window: Window) -> bool:
        """Return True when the window belongs to the grid."""
        return self.containing(window.start) == window

    def parse(self, text: str) -> Window:
        """Parse ``START/END`` with dates in the grid's zone; the window need not belong to the grid."""
        return Window.parse(text, self.zone)

    def span(self, window: Window, count: int) -> Window:
        """Return the span of ``count`` windows, counted from the anchor, that contains ``window``."""
        return Cadence(self.days * count, self.anchor, self.zone).containing(window.start)

    def _next(self, first: date) -> date:
        return first + timedelta(days=self.days)


def day_start(day: date, zone: str) -> datetime:
    """Return the start of a local day in UTC: midnight, or the first instant after it where clocks skip it.

    >>> day_start(date(2026, 4, 24), "Africa/Cairo").isoformat()  # the clock goes from 23:59 to 01:00
    '2026-04-23T22:00:00+00:00'
    """
    return datetime.combine(day, time(), ZoneInfo(zone)).astimezone(UTC)  # fold 0: the first of two midnights


def parse_timestamp(text: str, zone: str = "UTC") -> datetime:
    """Parse an ISO 8601 timestamp to UTC; a bare date is the start of that day in the zone.

    >>> parse_timestamp("2026-01-05")
    datetime.datetime(2026, 1, 5, 0, 0, tzinfo=datetime.timezone.utc)
    """
    try:
        timestamp = datetime.fromisoformat(text.strip())
    except ValueError:
        raise SettingsError(
            f"{text!r} is not a date or time; write 2026-01-05 or 2026-01-05T00:00:00Z"
        ) from None
    try:
        if timestamp.tzinfo is None:
            if not re.fullmatch(r"\d{4}-\d{2}-\d{2}(T00:00(:00)?)?", text.strip()):
                raise SettingsError(
                    f"{text!r} has no time zone; write it in UTC, for example {text.strip()}Z"
                )
            return day_start(timestamp.date(), zone)
        return timestamp.astimezone(UTC)
    except OverflowError:
        raise SettingsError(f"{text!r} is outside of the years 1 to 9999 in UTC") from None


def _between(edges: list[datetime], zone: str) -> list[Window]:
    """Return the windows between adjacent edges; a day that the zone skipped gives no window."""
    return [Window(start, end, zone) for start, end in pairwise(edges) if start < end]


def _day_at(timestamp: datetime, zone: str) -> date | None:
    """Return the local day that starts at ``timestamp``, or None."""
    day = timestamp.astimezone(ZoneInfo(zone)).date()
    return day if day_start(day, zone) == timestamp else None


def _short(timestamp: datetime, zone: str) -> str:
    day = _day_at(timestamp, zone)
    return timestamp.isoformat().replace("+00:00", "Z") if day is None else day.isoformat()
