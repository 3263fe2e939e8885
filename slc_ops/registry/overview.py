"""Summaries of a deployment: its newest versions and moves, and its serving method."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slc_ops.base.window import Window
from slc_ops.registry.ledger import Head, Ledger
from slc_ops.registry.publication import ChampionChange, Version
from slc_ops.registry.rules import TakenBack, taken_back


@dataclass(frozen=True)
class Glance:
    """A deployment in the ledger."""

    head: Head
    versions: list[Version]
    """Ordered by window, then by number."""
    line: list[ChampionChange]
    """Every move of the champion, oldest first."""

    @property
    def champion(self) -> Version | None:
        """The champion, or None."""
        return self._version(self.head.champion)

    @property
    def challenger(self) -> Version | None:
        """The newest pending version, or None."""
        return self._version(self.head.challenger)

    @property
    def newest(self) -> Version | None:
        """The version of the newest window, or None."""
        return self.versions[-1] if self.versions else None

    @property
    def last(self) -> ChampionChange | None:
        """The last move of the champion, or None."""
        return self.line[-1] if self.line else None

    @property
    def retired(self) -> ChampionChange | None:
        """The retirement in force, or None."""
        return self.last if self.head.champion is None else None

    @property
    def taken_back(self) -> list[TakenBack]:
        """The champions that people removed."""
        return taken_back(self.line)

    def _version(self, number: int | None) -> Version | None:
        return next((version for version in self.versions if version.number == number), None)


def glance(ledger: Ledger, name: str) -> Glance:
    """Read a deployment's summary from the ledger."""
    versions = sorted(ledger.versions(name), key=lambda each: (each.window.end, each.number))
    return Glance(ledger.head(name), versions, ledger.line(name))


def what_serves(
    champion: Version | None, line: Sequence[ChampionChange], versions: Sequence[Version]
) -> dict[str, Any] | None:
    """Return the champion's method, the window it serves since, and the window of its parameters.

    ``line`` contains the moves of the champion and ``versions`` the publications, both oldest first.
    ``series`` is the mean difference in NLL over the evidence windows, against Platt and the frozen model
    (``base``), at publication; ``since_start`` is that against the frozen model over the windows that the
    method had served. Each is None if not recorded. Returns None if the frozen model serves.
    """
    if champion is None:
        return None
    return {
        "method": champion.method,
        "since": serves_since(champion, line, versions).as_dict(),
        "parameters": champion.window.as_dict(),
        "series": champion.metrics.get("series"),
        "since_start": champion.metrics.get("since_start"),
    }


def serves_since(champion: Version, line: Sequence[ChampionChange], versions: Sequence[Version]) -> Window:
    """Return the window whose refresh made the champion's method serve; renewals do not count."""
    known = {version.number: version for version in versions}
    since = champion
    for move in reversed(line):
        before = known.get(move.to_version) if move.to_version is not None else None
        if before is None or before.method != champion.method:
            break
        since = before
    return since.window
