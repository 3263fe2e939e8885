"""Summaries of a deployment: its newest versions and moves, and its serving method."""

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

    @property
    def since(self) -> Window | None:
        """The window whose refresh made the champion's method serve; renewals do not count."""
        found, known = self.champion, {version.number: version for version in self.versions}
        since = found
        for move in reversed(self.line):
            before = None if move.to_version is None else known.get(move.to_version)
            if found is None or before is None or before.method != found.method:
                break
            since = before
        return None if since is None else since.window

    @property
    def serves(self) -> dict[str, Any] | None:
        """The champion's method, the window it serves since, and that of its parameters; None: frozen.

        ``series`` is the mean difference in NLL over the evidence windows, against Platt and the frozen model
        (``base``), at publication; ``since_start`` is that against the frozen model over the windows that the
        method had served. Each is None if not recorded.
        """
        champion, since = self.champion, self.since
        if champion is None or since is None:
            return None
        return {
            "method": champion.method,
            "since": since.as_dict(),
            "parameters": champion.window.as_dict(),
            "series": champion.metrics.get("series"),
            "since_start": champion.metrics.get("since_start"),
        }

    def _version(self, number: int | None) -> Version | None:
        return next((version for version in self.versions if version.number == number), None)


def glance(ledger: Ledger, name: str) -> Glance:
    """Read a deployment's summary from the ledger."""
    versions = sorted(ledger.versions(name), key=lambda each: (each.window.end, each.number))
    return Glance(ledger.head(name), versions, ledger.line(name))
