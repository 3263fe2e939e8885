"""Weekly windows: half-open, UTC, from the data interval and never from the clock."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from slc_ops.base.errors import SettingsError

WEEK = timedelta(days=7)


@dataclass(frozen=True, order=True)
class Window:
    """The half-open span ``[start, end)`` in UTC.

    >>> window = Window.parse("2026-01-05/2026-01-12")
    >>> str(window)
    '2026-01-05/2026-01-12'
    >>> [str(w) for w in window.before(2)]
    ['2025-12-22/2025-12-29', '2025-12-29/2026-01-05']
    >>> window.key
    '2026-01-05'
    """

    start: datetime
    end: datetime

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
    def parse(cls, text: str) -> "Window":
        """Read ``START/END``; dates mean midnight UTC."""
        parts = text.split("/")
        if len(parts) != 2:
            raise SettingsError(f"window {text!r} is not START/END, for example 2026-01-05/2026-01-12")
        return cls(parse_timestamp(parts[0]), parse_timestamp(parts[1]))

    @classmethod
    def week_of(cls, timestamp: datetime) -> "Window":
        """The window [Monday 00:00 UTC, next Monday) that contains ``timestamp``."""
        timestamp = timestamp.astimezone(UTC)
        day = datetime(timestamp.year, timestamp.month, timestamp.day, tzinfo=UTC)
        try:
            start = day - timedelta(days=timestamp.weekday())
            return cls(start, start + WEEK)
        except OverflowError:
            raise SettingsError(f"the week of {timestamp.isoformat()} leaves the calendar") from None

    @property
    def key(self) -> str:
        """A name for directories: the start's date, with the time when it is not midnight."""
        return _short(self.start).replace(":", "")

    def before(self, count: int) -> list["Window"]:
        """The ``count`` windows of the same length that end where this one starts, oldest first."""
        length = self.end - self.start
        try:
            return [
                Window(self.start - k * length, self.start - (k - 1) * length) for k in range(count, 0, -1)
            ]
        except OverflowError:
            raise SettingsError(
                f"window {self} has no {count} windows before it: the calendar begins with the year 1"
            ) from None

    def as_dict(self) -> dict[str, str]:
        """The JSON form: ISO 8601 with offset."""
        return {"start": self.start.isoformat(), "end": self.end.isoformat()}

    @classmethod
    def from_dict(cls, value: dict[str, str]) -> "Window":
        """Read what :meth:`as_dict` wrote."""
        return cls(parse_timestamp(value["start"]), parse_timestamp(value["end"]))

    def __str__(self) -> str:
        return f"{_short(self.start)}/{_short(self.end)}"


def parse_timestamp(text: str) -> datetime:
    """An ISO 8601 timestamp in UTC; a bare date is its midnight.

    >>> parse_timestamp("2026-01-05")
    datetime.datetime(2026, 1, 5, 0, 0, tzinfo=datetime.timezone.utc)
    """
    try:
        timestamp = datetime.fromisoformat(text.strip())
    except ValueError:
        raise SettingsError(
            f"{text!r} is not a date or time; write 2026-01-05 or 2026-01-05T00:00:00Z"
        ) from None
    if timestamp.tzinfo is None:
        if not re.fullmatch(r"\d{4}-\d{2}-\d{2}(T00:00(:00)?)?", text.strip()):
            raise SettingsError(f"{text!r} has no time zone; write it in UTC, for example {text.strip()}Z")
        timestamp = timestamp.replace(tzinfo=UTC)
    try:
        return timestamp.astimezone(UTC)
    except OverflowError:
        raise SettingsError(f"{text!r} is outside of the years 1 to 9999 in UTC") from None


def _short(timestamp: datetime) -> str:
    text = timestamp.isoformat().replace("+00:00", "Z")
    return text.removesuffix("T00:00:00Z")
