"""The state of a deployment, from the ledger and the files of its refreshes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from slc_ops.airflow.page.access import Schedule
from slc_ops.base.errors import SettingsError
from slc_ops.base.window import Window
from slc_ops.evidence.verdict import method_in_words, parameters_in_words
from slc_ops.observability.stored import Origin, newest_validation, refresh_of, stored_json
from slc_ops.observability.troubles import Trouble, troubles
from slc_ops.quality.result import PAGE
from slc_ops.refresh.backbone import read_backbone_change
from slc_ops.registry import Registry, Version
from slc_ops.registry.overview import Glance, glance
from slc_ops.settings.deployments_file import BrokenEntry, read_deployments
from slc_ops.settings.environment import Installation

FIGURES = {
    "series": "NLL of the method in question, the served model and the frozen model against Platt, by window",
    "over_time": "AUC of the backbone, Platt and the item correction over time",
}
"""Figures of the newest report on the page, with their alternative texts."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of the newest window: ``promote``, ``hold``, ``reject`` or ``stopped``, with the reason."""

    word: str
    why: str
    """The sentence without the verdict, which the page shows as a badge."""
    key: str
    """The window's key."""
    version: int | None = None
    method: str = ""
    """The serving method, as text."""
    parameters: str = ""
    """The decision about its parameters, as text."""


@dataclass(frozen=True)
class Card(Glance):
    """Summary of one deployment: its state in the ledger, in Airflow and on this host."""

    name: str
    schedule: Schedule
    backbone: str | None
    """A warning if champion and newest window have different backbones."""
    troubles: list[Trouble]
    """Other problems: late, a failed step, the disk. A stop appears in the outcome."""
    outcome: Outcome | None
    figures: list[str]
    """The figures of the newest version's report that exist on this host."""
    runbook: str
    """The runbook of a stopped newest window."""

    @property
    def attention(self) -> int:
        """Sort key: 0 if nothing is wrong, higher if a person must act."""
        stopped = self.outcome is not None and self.outcome.word == "stopped"
        if self.schedule.waiting_run or self.backbone or stopped or self.troubles:
            return 2
        return int(
            self.schedule.state == "failed" or (self.outcome is not None and self.outcome.word == "reject")
        )

    @property
    def age(self) -> str:
        """The time since the promotion of the champion."""
        return "" if self.last is None else ago(datetime.now(UTC) - self.last.at)

    @property
    def gone(self) -> set[int]:
        """The versions that people took back: what their refreshes said is history."""
        return {each.version for each in self.taken_back}

    @property
    def asked(self) -> str:
        """The approvers, those without an account, and the time of the request."""
        people = ", ".join(self.schedule.asked) or "everybody who may edit the run"
        if self.schedule.strangers:
            people += f" (no user of this Airflow: {', '.join(self.schedule.strangers)})"
        at = self.schedule.asked_at
        since = "" if at is None else f", since {at:%Y-%m-%d %H:%M} UTC, for {ago(datetime.now(UTC) - at)}"
        return f"{people}{since}"


def cards(installation: Installation, deployments: Mapping[str, Schedule]) -> list[Card]:
    """Return all deployments; those that need a person come first."""
    ledger = Registry.open(installation, create=False).ledger
    wrong = troubles(installation, datetime.now(UTC), deployments)
    made = [
        _card(installation, name, schedule, glance(ledger, name), wrong[name])
        for name, schedule in deployments.items()
    ]
    return sorted(made, key=lambda card: (-card.attention, card.name))


def _card(
    installation: Installation, name: str, schedule: Schedule, found: Glance, wrong: list[Trouble]
) -> Card:
    change = read_backbone_change(installation, name, found.head.champion)
    origin = None if found.newest is None else refresh_of(installation, found.newest)
    return Card(
        **vars(found),
        name=name,
        schedule=schedule,
        backbone=None if change is None else change.sentence,
        troubles=[each for each in wrong if each.code not in ("stopped", "entry")],
        outcome=_outcome(installation, name, found, origin),
        figures=[each for each in FIGURES if origin and figure_file(origin, each).is_file()],
        runbook=next((each.runbook for each in wrong if each.code == "stopped"), ""),
    )


def figure_file(origin: Origin, name: str) -> Path:
    """Return the path of a figure in a refresh's report."""
    return origin.files.report / "figures" / f"{name}.png"


def why(installation: Installation, version: Version) -> str | None:
    """Return the verdict's sentence of a version that is not to be promoted, if it is on this host."""
    if version.verdict == "promote":
        return None
    sentence = _verdict(installation, refresh_of(installation, version)).get("sentence")
    return None if sentence is None else _without_verdict(sentence, version.verdict)


def _verdict(installation: Installation, origin: Origin | None) -> dict[str, Any]:
    return {} if origin is None else stored_json(installation, origin.files.verdict)


def _without_verdict(sentence: str, verdict: str) -> str:
    first, _, rest = sentence.partition(" ")
    return rest if first.lower() == verdict else sentence


def broken_entries(installation: Installation) -> list[BrokenEntry]:
    """Return the errors of the deployments file; an invalid file is an entry without a name."""
    try:
        return read_deployments(installation.deployments_file)[1]
    except SettingsError as error:
        return [BrokenEntry("", str(error))]


def _outcome(installation: Installation, name: str, found: Glance, origin: Origin | None) -> Outcome | None:
    """Return the outcome of the newest window; a window stopped by validation has no version."""
    version, (window, result) = found.newest, newest_validation(installation, name)
    if result.get("status") == "stopped" and (version is None or window > version.window.key):
        return Outcome("stopped", _stop_sentence(result, window), window)
    if version is None:
        return None
    verdict = _verdict(installation, origin)
    proposed = None if verdict.get("kind") == "retire" else version.number
    sentence = verdict.get("sentence") or "The reasons are in MLflow, with the version's run."
    return Outcome(
        version.verdict,
        _without_verdict(sentence, version.verdict),
        version.window.key,
        version.number,
        method_in_words(verdict, happened=found.head.champion == proposed),
        parameters_in_words(verdict),
    )


def _stop_sentence(result: dict[str, Any], window: str) -> str:
    critical = [f for f in result.get("findings", []) if f.get("severity") == "critical"]
    more = f" (and {len(critical) - 1} more)" if len(critical) > 1 else ""
    why = f": {critical[0]['sentence']}{more}" if critical else ""
    return f"Validation stopped window {window}{why}."


def replays(installation: Installation, name: str) -> dict[str, Path]:
    """Return the pages of a deployment's replays by span, newest first."""
    found = installation.replays(name).glob("*/replay.html")
    return {page.parent.name: page for page in sorted(found, reverse=True)}


def validation_page(installation: Installation, name: str, key: str) -> Path | None:
    """Return the validation page of a window; ``key`` is compared with names, never joined to a path."""
    pages = installation.windows(name).glob(f"*/{PAGE}")
    return next((page for page in pages if page.parent.name == key), None)


def ago(span: Any) -> str:
    """Format a time span in one unit.

    >>> from datetime import timedelta
    >>> ago(timedelta(days=9, hours=3)), ago(timedelta(minutes=5)), ago(timedelta(seconds=2))
    ('9 days', '5 minutes', 'less than a minute')
    """
    seconds = span.total_seconds()
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return "less than a minute"


def days(window: Window) -> str:
    """Format a window as its first and last local day.

    >>> days(Window.parse("2026-03-23/2026-03-30"))
    '23 Mar – 29 Mar 2026'
    >>> days(Window.parse("2026-03-29/2026-03-30", "Asia/Tokyo"))
    '29 Mar 2026'
    """
    first, last = window.dates[0], window.dates[-1]
    return f"{last:%-d %b %Y}" if first == last else f"{first:%-d %b} – {last:%-d %b %Y}"
