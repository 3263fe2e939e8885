"""Refresh past windows: their selection, their order, and existing results."""

from dataclasses import dataclass
from datetime import datetime

from slc_ops.base.errors import SettingsError
from slc_ops.base.window import Cadence, Window, parse_timestamp
from slc_ops.refresh.evidence import read_verdict
from slc_ops.refresh.gate import promote, propose
from slc_ops.refresh.plan import Plan
from slc_ops.refresh.versions import newest_refresh
from slc_ops.refresh.window_rules import is_scheduled
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.environment import Installation

MAX_WINDOWS = 1000
"""Maximum windows in one backfill; Airflow maps a task over at most 1,024."""


@dataclass(frozen=True)
class BackfillWindow:
    """One window of a backfill, with its existing results."""

    window: Window
    versions: tuple[int, ...]
    nothing_to_register: bool
    """True if it was refreshed and no method has enough evidence for a version."""
    again: bool

    @property
    def finished(self) -> bool:
        """True if there is a result."""
        return bool(self.versions) or self.nothing_to_register

    @property
    def due(self) -> bool:
        """True if the backfill will refresh it."""
        return self.again or not self.finished

    def __str__(self) -> str:
        have = f"version {', '.join(map(str, self.versions))}" if self.versions else "no version"
        have = "nothing to register" if self.nothing_to_register else have
        return f"{self.window}  {have:<20}  {'refresh' if self.due else 'finished'}"


def windows_between(deployment: Deployment, start: str, end: str, due: datetime) -> list[Window]:
    """Return the windows of ``[start, end)`` that a schedule refreshes, oldest first.

    ``due`` is the time of the request: a window's labels must have been due then. Borders off the grid, in
    the future or outside the deployment's time raise :class:`SettingsError`.

    >>> from datetime import UTC
    >>> from slc_ops.settings.sources import LakeSource
    >>> demo = Deployment(source=LakeSource(path="lake"), start="2026-01-05")
    >>> weeks = windows_between(demo, "2026-02-02", "2026-02-23", datetime(2026, 3, 1, tzinfo=UTC))
    >>> [str(week) for week in weeks]
    ['2026-02-02/2026-02-09', '2026-02-09/2026-02-16', '2026-02-16/2026-02-23']
    """
    cadence, zone = deployment.cadence, deployment.window.zone
    whole = Window(border(cadence, start, "from"), border(cadence, end, "to"), zone)
    newest = deployment.window_due(due)
    if whole.end > newest.end:
        raise SettingsError(
            f"'to' {str(whole).split('/')[1]} lies in the future: the newest complete {cadence.name} ends "
            f"{str(newest).split('/')[1]}"
        )
    first, last = deployment.starts_at, deployment.ends_at
    if whole.start < first or (last is not None and whole.end > last):
        raise SettingsError(
            f"{whole} is not inside the deployment's time, {deployment.start} to {deployment.end or 'now'}; "
            "change the range, or start and end in the deployments file"
        )
    every = deployment.refresh_every
    windows = cadence.between(whole.start, whole.end)
    found = [each for each in windows if is_scheduled(each, cadence, every)]
    if len(found) > MAX_WINDOWS:
        raise SettingsError(f"{whole} is {len(found)} refreshes; ask for at most {MAX_WINDOWS} at a time")
    if not found:
        raise SettingsError(
            f"no scheduled refresh ends in {whole}: there is one every {every} windows, the next ends "
            f"{str(cadence.span(windows[-1], every)).split('/')[1]}"
        )
    return found


def border(cadence: Cadence, text: str, name: str) -> datetime:
    """Return the start of a window; another timestamp raises an error with the nearest ones."""
    timestamp = parse_timestamp(text, cadence.zone)
    window = cadence.containing(timestamp)
    if timestamp != window.start:
        before, after = str(window).split("/")
        raise SettingsError(
            f"{name!r} {text} is not the start of a {cadence.name} ({cadence.described}); "
            f"take {before} or {after}"
        )
    return timestamp


def plan_backfill(
    installation: Installation, name: str, windows: list[Window], *, again: bool
) -> list[BackfillWindow]:
    """Return the plan of a backfill of these windows; a window with a version of its own is finished."""
    from slc_ops.registry import Registry

    found: dict[Window, list[int]] = {}
    for version in Registry.open(installation).ledger.versions(name):
        if version.retired_at is None:
            found.setdefault(version.window, []).append(version.number)
    return [
        BackfillWindow(
            window,
            tuple(found.get(window, ())),
            window not in found and _without_method(installation, name, window),
            again,
        )
        for window in windows
    ]


def _without_method(installation: Installation, name: str, window: Window) -> bool:
    plan = newest_refresh(installation, name, window)
    return plan is not None and read_verdict(plan)["method"] is None


def promote_window(installation: Installation, plan: Plan, *, actor: str) -> str:
    """Promote the window's version by the gate's rules, under a person's name; return a sentence."""
    proposal = propose(installation, plan, "manual")
    if proposal.hold is not None:
        return f"held: {proposal.hold}"
    return promote(installation, proposal, actor=actor, automatic=False)
