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
"""The Monday from which windows of several weeks are counted, where no other day is named."""


@dataclass(frozen=True, order=True)
class Window(OwnForm):
    """The half-open span ``[start, end)``, kept in UTC. ``zone`` says whose days it consists of.

    Two windows with the same bounds are the same window, whatever their zones are called.

    >>> window = Window.parse("2026-01-05/2026-01-12")
    >>> str(window)
    '2026-01-05/2026-01-12'
    >>> [str(w) for w in window.before(2)]
    ['2025-12-22/2025-12-29', '2025-12-29/2026-01-05']
    >>> window.key
    '2026-01-05'

    A week with the change to summer time has an hour less, and the weeks around it do not move:

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
        """Read ``START/END``; dates mean midnight in the zone."""
        parts = text.split("/")
        if len(parts) != 2:
            raise SettingsError(f"window {text!r} is not START/END, for example 2026-01-05/2026-01-12")
        return cls(parse_timestamp(parts[0], zone), parse_timestamp(parts[1], zone), zone)

    @classmethod
    def week_of(cls, timestamp: datetime) -> "Window":
        """The window [Monday 00:00 UTC, next Monday) that contains ``timestamp``."""
        return Cadence().containing(timestamp)

    @property
    def key(self) -> str:
        """A name for directories: the start's date, with the time when it is not midnight."""
        return _short(self.start, self.zone).replace(":", "")

    @property
    def called(self) -> str:
        """What people call it: a day, a week, or just a window."""
        return {1: "day", 7: "week"}.get(len(self.dates), "window")

    @property
    def dates(self) -> list[date]:
        """The local days that the window touches, in order."""
        first = self.start.astimezone(ZoneInfo(self.zone)).date()
        last = (self.end - timedelta(microseconds=1)).astimezone(ZoneInfo(self.zone)).date()
        return [first + timedelta(days=k) for k in range((last - first).days + 1)]

    def before(self, count: int) -> list["Window"]:
        """The ``count`` windows of the same length that end where this one starts, oldest first.

        A window of whole local days has as many days before it; any other one as many seconds.
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
        """Start and end: ISO 8601 with offset."""
        return {"start": self.start.isoformat(), "end": self.end.isoformat()}

    def as_dict(self) -> dict[str, str]:
        """The JSON form: the bounds, and the zone where it is not UTC."""
        return self.bounds if self.zone == "UTC" else {**self.bounds, "zone": self.zone}

    @classmethod
    def from_dict(cls, value: dict[str, str]) -> "Window":
        """Read what :meth:`as_dict` wrote."""
        return cls(parse_timestamp(value["start"]), parse_timestamp(value["end"]), value.get("zone", "UTC"))

    def __str__(self) -> str:
        return f"{_short(self.start, self.zone)}/{_short(self.end, self.zone)}"


@dataclass(frozen=True)
class Cadence:
    """The grid of windows: ``days`` local days each, one of them beginning on ``anchor``.

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
        """What people call a window of it."""
        return {1: "day", 7: "week"}.get(self.days, f"{self.days}-day window")

    @property
    def described(self) -> str:
        """Where its windows begin and end.

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
        """The one window that holds ``timestamp``."""
        try:
            day = timestamp.astimezone(ZoneInfo(self.zone)).date()
            first = day - timedelta(days=(day - self.anchor).days % self.days)
            # A clock that goes back from 00:01 to 23:01 shows yesterday again, but today has begun.
            while (end := day_start(self._next(first), self.zone)) <= timestamp:
                first = self._next(first)
            return Window(day_start(first, self.zone), end, self.zone)
        except OverflowError:
            raise SettingsError(f"the {self.name} of {timestamp.isoformat()} leaves the calendar") from None

    def complete_at(self, timestamp: datetime) -> Window:
        """The last window that had ended at ``timestamp``."""
        return self.containing(self.containing(timestamp).start - timedelta(microseconds=1))

    def between(self, start: datetime, end: datetime) -> list[Window]:
        """The windows from one that begins at ``start`` to one that ends at ``end``, oldest first."""
        edges, day = [start], _day_at(start, self.zone)
        while day is not None and edges[-1] < end:
            day = self._next(day)
            edges.append(day_start(day, self.zone))
        return _between(edges, self.zone)

    def holds(self, window: Window) -> bool:
        """Whether the window is one of the grid."""
        return self.containing(window.start) == window

    def parse(self, text: str) -> Window:
        """Read ``START/END``, dates in the grid's zone; whether it lies on the grid is not asked."""
        return Window.parse(text, self.zone)

    def span(self, window: Window, count: int) -> Window:
        """The span of ``count`` windows, counted from the anchor, that ``window`` lies in."""
        return Cadence(self.days * count, self.anchor, self.zone).containing(window.start)

    def _next(self, first: date) -> date:
        return first + timedelta(days=self.days)


def day_start(day: date, zone: str) -> datetime:
    """The first moment of a local day, in UTC: midnight, or what comes instead where clocks skip it.

    >>> day_start(date(2026, 4, 24), "Africa/Cairo").isoformat()  # the clock goes from 23:59 to 01:00
    '2026-04-23T22:00:00+00:00'
    """
    return datetime.combine(day, time(), ZoneInfo(zone)).astimezone(UTC)  # fold 0: the first of two


def parse_timestamp(text: str, zone: str = "UTC") -> datetime:
    """An ISO 8601 timestamp in UTC; a bare date is the beginning of that day in the zone.

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
    """The windows between neighbouring edges; a zone that left out a whole day has none of that day."""
    return [Window(start, end, zone) for start, end in pairwise(edges) if start < end]


def _day_at(timestamp: datetime, zone: str) -> date | None:
    """The local day that begins at ``timestamp``."""
    day = timestamp.astimezone(ZoneInfo(zone)).date()
    return day if day_start(day, zone) == timestamp else None


def _short(timestamp: datetime, zone: str) -> str:
    day = _day_at(timestamp, zone)
    return timestamp.isoformat().replace("+00:00", "Z") if day is None else day.isoformat()
