"""The ``window`` and ``schedule`` blocks: the length of a window, the time of its refresh, its lags."""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from slc_ops.base.window import MONDAY, Cadence
from slc_ops.settings.blocks import SettingsBlock, Zone

UNITS = {"m": "minutes", "h": "hours", "d": "days"}
MAX_WINDOW_LENGTH = timedelta(days=366)


def duration(value: Any) -> timedelta:
    """Parse a duration: a number with m, h or d, at most 366 days.

    >>> duration("3d"), duration("90m")
    (datetime.timedelta(days=3), datetime.timedelta(seconds=5400))
    """
    if isinstance(value, timedelta):
        return value
    found = re.fullmatch(r"(\d{1,6})([mhd])", value.strip()) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"write a number with m, h or d, for example 12h or 3d; found {str(value)[:40]!r}")
    length = timedelta(**{UNITS[found[2]]: int(found[1])})
    if length > MAX_WINDOW_LENGTH:
        raise ValueError(f"{value} is more than {MAX_WINDOW_LENGTH.days} days")
    return length


Duration = Annotated[
    timedelta,
    BeforeValidator(duration, json_schema_input_type=Annotated[str, Field(pattern="^[0-9]{1,6}[mhd]$")]),
]


class WindowGrid(SettingsBlock):
    """Windows of ``days`` local days; an hour that the clock skips or repeats belongs to its day."""

    days: Literal[1, 7, 14, 28] = Field(default=7, description="days of a window")
    anchor: Literal["monday"] | date = Field(
        default="monday",
        description="a day on which a window starts; `monday` counts from Monday 1970-01-05",
    )
    zone: Zone = Field(default="UTC", description="time zone of the days, `UTC` or such as `Europe/Berlin`")

    @property
    def cadence(self) -> Cadence:
        """Return the grid of the windows."""
        return Cadence(self.days, MONDAY if isinstance(self.anchor, str) else self.anchor, self.zone)


def cron_expression(text: str) -> str:
    """Return a valid cron expression that has a next time; raise ``ValueError`` otherwise."""
    from croniter import CroniterError, croniter

    try:
        croniter(text, datetime(2026, 1, 5, tzinfo=UTC)).get_next()  # 31 February parses, but never comes
    except CroniterError:
        raise ValueError(
            f"{text!r} is no schedule; write a cron expression, for example 0 0 * * 1 (Mondays)"
        ) from None
    return text


class Schedule(SettingsBlock):
    """The time of a refresh: by ``cron``, on an event of ``asset``, or, with both, by ``cron`` once the asset
    has its event.
    """

    cron: Annotated[str, AfterValidator(cron_expression)] | None = Field(
        default=None, description="cron expression in the window's zone"
    )
    asset: str | None = Field(
        default=None, min_length=1, description="name or URI of the Airflow asset to wait for"
    )

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.cron is None and self.asset is None:
            raise ValueError("name a cron expression, an asset, or both")
        return self


def as_schedule(value: Any) -> Any:
    """Turn a plain cron expression into a schedule block."""
    return {"cron": value} if isinstance(value, str) else value
