"""Refreshing past weeks: which ones, in which order, and what is already there."""

from dataclasses import dataclass
from datetime import datetime

from slc_ops.base.errors import SettingsError
from slc_ops.base.files import read_json
from slc_ops.base.window import WEEK, Window, parse_timestamp
from slc_ops.refresh.finished import newest_refresh
from slc_ops.refresh.gate import promote, propose
from slc_ops.refresh.plan import Plan
from slc_ops.settings.deployments import Deployment, Places

LONGEST = 1000
"""Weeks in one backfill; Airflow maps a task over at most 1,024."""


@dataclass(frozen=True)
class Week:
    """One week of a backfill, and what exists of it."""

    window: Window
    versions: tuple[int, ...]
    nothing_to_register: bool
    """It was worked out, and no method has the evidence that a version needs."""
    again: bool

    @property
    def finished(self) -> bool:
        """Whether there is a result."""
        return bool(self.versions) or self.nothing_to_register

    @property
    def due(self) -> bool:
        """Whether the backfill will refresh it."""
        return self.again or not self.finished

    def __str__(self) -> str:
        have = f"version {', '.join(map(str, self.versions))}" if self.versions else "no version"
        have = "nothing to register" if self.nothing_to_register else have
        return f"{self.window}  {have:<20}  {'refresh' if self.due else 'finished'}"


def weeks_between(deployment: Deployment, start: str, end: str, due: datetime) -> list[Window]:
    """The weeks of ``[start, end)``, oldest first; ``due`` is when the backfill was asked for.

    >>> from datetime import UTC
    >>> from slc_ops.settings.deployments import LakeSource
    >>> demo = Deployment(source=LakeSource(path="lake"), start="2026-01-05")
    >>> weeks = weeks_between(demo, "2026-02-02", "2026-02-23", datetime(2026, 3, 1, tzinfo=UTC))
    >>> [str(week) for week in weeks]
    ['2026-02-02/2026-02-09', '2026-02-09/2026-02-16', '2026-02-16/2026-02-23']
    """
    whole = Window(monday(start, "from"), monday(end, "to"))
    newest = Window.week_of(due - WEEK).end
    if whole.end > newest:
        raise SettingsError(
            f"'to' {whole.end:%Y-%m-%d} lies in the future: the newest complete week ends {newest:%Y-%m-%d}"
        )
    first, last = deployment.starts_at, deployment.ends_at
    if whole.start < first or (last is not None and whole.end > last):
        raise SettingsError(
            f"{whole} is not inside the deployment's time, {deployment.start} to {deployment.end or 'now'}; "
            "change the range, or start and end in the deployments file"
        )
    count = (whole.end - whole.start) // WEEK
    if count > LONGEST:
        raise SettingsError(f"{whole} is {count} weeks; refresh at most {LONGEST} at a time")
    return [Window(whole.start + k * WEEK, whole.start + (k + 1) * WEEK) for k in range(count)]


def monday(text: str, name: str) -> datetime:
    """A week's border; another day is an error that names the nearest Mondays."""
    timestamp = parse_timestamp(text)
    week = Window.week_of(timestamp)
    if timestamp != week.start:
        raise SettingsError(
            f"{name!r} {text} is not the start of a week (Monday 00:00 UTC); "
            f"take {week.start:%Y-%m-%d} or {week.end:%Y-%m-%d}"
        )
    return timestamp


def look(places: Places, name: str, windows: list[Window], *, again: bool) -> list[Week]:
    """What a backfill of these windows would do; a week with a version of its own is finished."""
    from slc_ops.registry import Registry

    found: dict[Window, list[int]] = {}
    for version in Registry.open(places).ledger.versions(name):
        if version.retired_at is None:
            found.setdefault(version.window, []).append(version.number)
    return [
        Week(
            window,
            tuple(found.get(window, ())),
            window not in found and _without_method(places, name, window),
            again,
        )
        for window in windows
    ]


def _without_method(places: Places, name: str, window: Window) -> bool:
    plan = newest_refresh(places, name, window)
    return plan is not None and read_json(plan.files.verdict)["method"] is None


def promote_week(places: Places, plan: Plan, *, actor: str) -> str:
    """What a person asked for with ``promote``: the gate's rules, under the person's name."""
    proposal = propose(places, plan, "manual")
    if proposal.hold is not None:
        return f"held: {proposal.hold}"
    return promote(places, proposal, actor=actor, automatic=False)
