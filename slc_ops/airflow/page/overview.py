"""What the page knows of a deployment: from the ledger, and from the files of its refreshes."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from slc_ops.airflow.page.access import Schedule
from slc_ops.base.errors import SettingsError
from slc_ops.base.files import read_json
from slc_ops.base.window import Window
from slc_ops.evidence.verdict import method_in_words, parameters_in_words
from slc_ops.observability.troubles import Trouble, troubles
from slc_ops.quality.result import PAGE, RESULT
from slc_ops.refresh.backbone import read_backbone_change
from slc_ops.refresh.files import VERSIONS, RefreshFiles
from slc_ops.registry import ChampionChange, Registry, Version
from slc_ops.registry.overview import Glance, overview
from slc_ops.registry.rules import taken_back
from slc_ops.settings.deployments import Installation, read_deployments

VERSIONS_READ = 24
"""The newest versions of a deployment that the page knows of."""
FIGURES = {
    "series": "NLL of the method in question, what was served, and the frozen model against Platt, by window",
    "over_time": "AUC of the backbone, Platt and the item correction over time",
}
"""Figures of the newest report that the page shows, and what they say to those who cannot see them."""
_KEPT = (
    "sentence", "versions", "status", "findings", "verdict", "kind", "decision", "renewal",
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """How the newest window ended: ``promote``, ``hold``, ``reject`` or ``stopped``, and why."""

    word: str
    sentence: str
    window: str
    key: str
    version: int | None
    method: str = ""
    """Which method serves, in words."""
    parameters: str = ""
    """What becomes of its parameters, in words."""

    @property
    def why(self) -> str:
        """The sentence without the verdict's word, which stands before it as a badge."""
        first, _, rest = self.sentence.partition(" ")
        return rest if first.lower() == self.word else self.sentence


@dataclass(frozen=True)
class Card:
    """One deployment at a glance."""

    name: str
    schedule: Schedule
    champion: Version | None
    challenger: Version | None
    since: datetime | None
    retired: ChampionChange | None
    """Why there is no champion any more, where it was retired."""
    backbone: str | None
    """That the champion is of another backbone than the newest window, in words."""
    taken_back: list[str]
    """What people took back, by whom and until when."""
    troubles: list[Trouble]
    """What else is wrong: late, a step that failed, the disk. A stop is the outcome."""
    outcome: Outcome | None
    published: list[Version]
    """The newest versions, oldest first."""
    newest: Version | None
    """The version of the newest window."""
    figures: list[str]
    """The figures of its refresh's report that are on this host."""

    @property
    def attention(self) -> int:
        """0 when all is well; what needs a person comes first."""
        stopped = self.outcome is not None and self.outcome.word == "stopped"
        if self.schedule.waiting_run or self.backbone or stopped or self.troubles:
            return 2
        return int(
            self.schedule.state == "failed" or (self.outcome is not None and self.outcome.word == "reject")
        )

    @property
    def age(self) -> str:
        """How long the champion has been champion."""
        return "" if self.since is None else ago(datetime.now(UTC) - self.since)

    @property
    def asked(self) -> str:
        """Who is asked to approve, who of them does not exist, since when."""
        people = ", ".join(self.schedule.asked) or "everybody who may edit the run"
        if self.schedule.strangers:
            people += f" (no user of this Airflow: {', '.join(self.schedule.strangers)})"
        at = self.schedule.asked_at
        since = "" if at is None else f", since {at:%Y-%m-%d %H:%M} UTC, for {ago(datetime.now(UTC) - at)}"
        return f"{people}{since}"


def cards(installation: Installation, deployments: Mapping[str, Schedule]) -> list[Card]:
    """Every deployment, those that need a person first."""
    found = overview(Registry.open(installation, create=False).ledger, list(deployments), VERSIONS_READ)
    wrong = troubles(installation, datetime.now(UTC), deployments)
    made = [
        _card(installation, name, schedule, found[name], wrong[name])
        for name, schedule in deployments.items()
    ]
    return sorted(made, key=lambda card: (-card.attention, card.name))


def _card(
    installation: Installation, name: str, schedule: Schedule, glance: Glance, wrong: list[Trouble]
) -> Card:
    newest = glance.versions[-1] if glance.versions else None
    return Card(
        name=name,
        schedule=schedule,
        champion=glance.version(glance.head.champion),
        challenger=glance.version(glance.head.challenger),
        since=None if glance.last is None else glance.last.at,
        retired=glance.last if glance.head.champion is None else None,
        backbone=None
        if (change := read_backbone_change(installation, name, glance.head.champion)) is None
        else change.sentence,
        taken_back=[each.sentence for each in taken_back(glance.changes)],
        troubles=[each for each in wrong if each.code not in ("stopped", "entry")],
        outcome=_outcome(installation, name, newest, glance.head.champion),
        published=glance.versions,
        newest=newest,
        figures=_figures(installation, newest),
    )


def _figures(installation: Installation, version: Version | None) -> list[str]:
    """The stored figures of the refresh that published a version, where it is on this host."""
    origin = None if version is None else refresh_of(installation, version)
    return [] if origin is None else [name for name in FIGURES if figure_file(origin, name).is_file()]


def figure_file(origin: "Origin", name: str) -> Path:
    """Where a refresh keeps a figure of its report."""
    return origin.files.report / "figures" / f"{name}.png"


def why(installation: Installation, version: Version) -> str | None:
    """The verdict's sentence of a version that was not to be promoted, where its refresh is on this host."""
    if version.verdict == "promote":
        return None
    origin = refresh_of(installation, version)
    sentence = None if origin is None else _json(installation, origin.files.verdict).get("sentence")
    return None if sentence is None else Outcome(version.verdict, sentence, "", "", None).why


@dataclass(frozen=True)
class Broken:
    """An entry of the deployments file that cannot be used, or (without a name) the whole file."""

    name: str | None
    sentence: str


def broken_entries(installation: Installation) -> list[Broken]:
    """What is wrong with the deployments file."""
    try:
        return [
            Broken(entry.name, str(entry)) for entry in read_deployments(installation.deployments_file)[1]
        ]
    except SettingsError as error:
        return [Broken(None, str(error))]


def _outcome(
    installation: Installation, name: str, version: Version | None, champion: int | None
) -> Outcome | None:
    """The newest window's end; a window that validation stopped has no version."""
    stopped = _newest_window(installation, name)
    if stopped is not None and (version is None or stopped.name > version.window.key):
        result = _json(installation, stopped / RESULT)
        if result.get("status") == "stopped":
            return Outcome("stopped", _stop_sentence(result), stopped.name, stopped.name, None)
    if version is None:
        return None
    origin = refresh_of(installation, version)
    verdict = {} if origin is None else _json(installation, origin.files.verdict)
    retires = verdict.get("kind") == "retire"
    sentence = verdict.get("sentence") or "The reasons are in MLflow, with the version's run."
    return Outcome(
        version.verdict,
        sentence,
        str(version.window),
        version.window.key,
        version.number,
        method_in_words(verdict, happened=champion == (None if retires else version.number)),
        parameters_in_words(verdict),
    )


def _stop_sentence(result: dict[str, Any]) -> str:
    critical = [f for f in result.get("findings", []) if f.get("severity") == "critical"]
    more = f" (and {len(critical) - 1} more)" if len(critical) > 1 else ""
    return f"Validation stopped: {critical[0]['sentence']}{more}." if critical else "Validation stopped."


@dataclass(frozen=True)
class Origin:
    """The refresh that registered a version, and where its parameter set lies."""

    files: RefreshFiles
    parameters: Path


def refresh_of(installation: Installation, version: Version) -> Origin | None:
    """The refresh that registered a version; None when it is not on this host."""
    for file in (installation.refreshes(version.deployment) / version.window.key).glob(f"*/{VERSIONS}"):
        for each in _json(installation, file).get("versions") or []:
            if each["number"] == version.number:
                # The name of a directory, whatever the file says: it leads nowhere else.
                return Origin(RefreshFiles(file.parent), file.parent / Path(each["parameters"]).name)
    return None


def replays(installation: Installation, name: str) -> dict[str, Path]:
    """The pages of a deployment's replays by their spans, newest span first."""
    found = installation.replays(name).glob("*/replay.html")
    return {page.parent.name: page for page in sorted(found, reverse=True)}


def validation_page(installation: Installation, name: str, key: str) -> Path | None:
    """The page that validation wrote for a window; ``key`` is compared with names, never joined to a path."""
    for directory in installation.windows(name).glob("*"):
        if directory.name == key and (directory / PAGE).is_file():
            return directory / PAGE
    return None


def reached_by_link(installation: Installation, path: Path) -> bool:
    """Whether a symbolic link leads to ``path`` somewhere below the home: it may lead anywhere."""
    below = path.relative_to(installation.home).parts
    return any(installation.home.joinpath(*below[: count + 1]).is_symlink() for count in range(len(below)))


def _newest_window(installation: Installation, name: str) -> Path | None:
    """The newest window with a validation's result; looked for from the end of what may be years of them."""
    directory = installation.windows(name)
    try:
        names = sorted((name for name in os.listdir(directory) if name[0].isdigit()), reverse=True)
    except OSError:
        return None
    return next((directory / name for name in names if (directory / name / RESULT).exists()), None)


def _json(installation: Installation, path: Path) -> dict[str, Any]:
    try:
        return {} if reached_by_link(installation, path) else _parsed(path, path.stat().st_mtime_ns)
    except (OSError, ValueError):
        return {}


@lru_cache(maxsize=2048)
def _parsed(path: Path, changed: int) -> dict[str, Any]:
    value = read_json(path)
    return {key: value[key] for key in _KEPT if key in value} if isinstance(value, dict) else {}


def ago(span: Any) -> str:
    """A span in one unit.

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
    """A window for people: its first and last local day.

    >>> days(Window.parse("2026-03-23/2026-03-30"))
    '23 Mar – 29 Mar 2026'
    >>> days(Window.parse("2026-03-29/2026-03-30", "Asia/Tokyo"))
    '29 Mar 2026'
    """
    first, last = window.dates[0], window.dates[-1]
    return f"{last:%-d %b %Y}" if first == last else f"{first:%-d %b} – {last:%-d %b %Y}"
