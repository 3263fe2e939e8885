"""What the page knows of a deployment: from the ledger, and from the files of its refreshes."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from slc_ops.airflow.page.access import Schedule
from slc_ops.airflow.page.charts import Chart, Point, chart
from slc_ops.base.files import read_json
from slc_ops.base.window import Window
from slc_ops.registry import Registry, Version
from slc_ops.registry.overview import Glance, overview
from slc_ops.settings.deployments import Places

WINDOWS = 12
"""Windows in the lines."""


@dataclass(frozen=True)
class Outcome:
    """How the newest window ended: ``promote``, ``hold``, ``reject`` or ``stopped``, and why."""

    word: str
    sentence: str
    window: str
    key: str
    version: int | None

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
    outcome: Outcome | None
    versions: list[Version]
    """The newest version of each window, oldest first."""
    published: list[Version]
    """All versions of these windows, in the same order."""

    @property
    def attention(self) -> int:
        """0 when all is well; what needs a person comes first."""
        if self.schedule.waiting_run or (self.outcome and self.outcome.word == "stopped"):
            return 2
        return int(
            self.schedule.state == "failed" or (self.outcome is not None and self.outcome.word == "reject")
        )

    @property
    def age(self) -> str:
        """How long the champion has reigned."""
        return "" if self.since is None else ago(datetime.now(UTC) - self.since)

    def line(self, metric: str, **size: float) -> Chart | None:
        """The last windows as a chart."""
        return chart(
            [Point.of(version, metric) for version in self.versions[-WINDOWS:]], metric.upper(), **size
        )


def cards(places: Places, deployments: Mapping[str, Schedule]) -> list[Card]:
    """Every deployment, those that need a person first."""
    found = overview(Registry.open(places).ledger, list(deployments), 2 * WINDOWS)
    made = [_card(places, name, schedule, found[name]) for name, schedule in deployments.items()]
    return sorted(made, key=lambda card: (-card.attention, card.name))


def _card(places: Places, name: str, schedule: Schedule, glance: Glance) -> Card:
    newest = {version.window: version for version in glance.versions}
    ordered = [newest[window] for window in sorted(newest)]
    return Card(
        name=name,
        schedule=schedule,
        champion=glance.version(glance.head.champion),
        challenger=glance.version(glance.head.challenger),
        since=None if glance.last is None else glance.last.at,
        outcome=_outcome(places, name, ordered[-1] if ordered else None),
        versions=ordered,
        published=glance.versions,
    )


def _outcome(places: Places, name: str, version: Version | None) -> Outcome | None:
    """The newest window's end; a window that validation stopped has no version."""
    stopped = _newest_window(places.windows(name))
    if stopped is not None and (version is None or stopped.name > version.window.key):
        result = _json(stopped / "validation.json")
        if result.get("status") == "stopped":
            return Outcome("stopped", _stop_sentence(result), stopped.name, stopped.name, None)
    if version is None:
        return None
    directory = refresh_of(places, version)
    verdict = {} if directory is None else _json(directory / "verdict.json")
    sentence = verdict.get("sentence") or "The reasons are in MLflow, with the version's run."
    return Outcome(version.verdict, sentence, str(version.window), version.window.key, version.number)


def _stop_sentence(result: dict[str, Any]) -> str:
    critical = [f for f in result.get("findings", []) if f.get("severity") == "critical"]
    more = f" (and {len(critical) - 1} more)" if len(critical) > 1 else ""
    return f"Validation stopped: {critical[0]['sentence']}{more}." if critical else "Validation stopped."


def refresh_of(places: Places, version: Version) -> Path | None:
    """The directory of the refresh that published a version; None when it is not on this host."""
    for file in (places.refreshes(version.deployment) / version.window.key).glob("*/version.json"):
        if _json(file).get("version") == version.number:
            return file.parent
    return None


def validation_page(places: Places, name: str, key: str) -> Path | None:
    """The page that validation wrote for a window; ``key`` is compared with names, never joined to a path."""
    for directory in places.windows(name).glob("*"):
        if directory.name == key and (directory / "validation.html").is_file():
            return directory / "validation.html"
    return None


def _newest_window(directory: Path) -> Path | None:
    """The newest window that validation has judged; looked for from the end of what may be years of them."""
    try:
        names = sorted((name for name in os.listdir(directory) if name[0].isdigit()), reverse=True)
    except OSError:
        return None
    return next((directory / name for name in names if (directory / name / "validation.json").exists()), None)


def _json(path: Path) -> dict[str, Any]:
    try:
        return _parsed(path, path.stat().st_mtime_ns)
    except (OSError, ValueError):
        return {}


@lru_cache(maxsize=2048)
def _parsed(path: Path, changed: int) -> dict[str, Any]:
    value: dict[str, Any] = read_json(path)
    return {
        key: value[key] for key in ("sentence", "version", "run_id", "status", "findings") if key in value
    }


def ago(span: Any) -> str:
    """A span in one unit.

    >>> from datetime import timedelta
    >>> ago(timedelta(days=9, hours=3)), ago(timedelta(minutes=5)), ago(timedelta(seconds=2))
    ('9 days', '5 minutes', 'moments')
    """
    seconds = span.total_seconds()
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return "moments"


def week(window: Window) -> str:
    """A window for people: its first and last day.

    >>> week(Window.parse("2026-03-23/2026-03-30"))
    '23 Mar – 29 Mar 2026'
    """
    from datetime import timedelta

    last = window.end - timedelta(seconds=1)
    return f"{window.start:%-d %b} – {last:%-d %b %Y}"
