"""The files of one refresh, by name: nothing else spells them.

What a lower package writes into a directory of its own (a score, a parameter set, the detectability table) is
named by that package.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from slc_ops.base.window import Window

PLAN = "plan.json"
VERDICT = "verdict.json"
OUTCOME = "outcome.json"
VERSIONS = "versions.json"
SCORES = "scores"
STEPS = "steps"
"""Beside the refreshes of a window: when each step ran and how it ended."""


@dataclass(frozen=True)
class RefreshFiles:
    """Where one refresh keeps what it works out: ``<refreshes>/<window>/<key>/``."""

    directory: Path

    @property
    def plan(self) -> Path:
        """What the refresh is about to do; written first."""
        return self.directory / PLAN

    @property
    def windows(self) -> Path:
        """The rows that the plan names."""
        return self.directory / "windows"

    @property
    def earlier(self) -> Path:
        """What ``slc_eb`` makes of the backbone's rows before this one, where the plan has some."""
        return self.directory / "earlier"

    @property
    def scores(self) -> Path:
        """One directory per fold and method."""
        return self.directory / SCORES

    @property
    def backtest(self) -> Path:
        """The methods and the champion compared."""
        return self.directory / "backtest.json"

    @property
    def detectability(self) -> Path:
        """Which drift the rows could show."""
        return self.directory / "detectability"

    @property
    def verdict(self) -> Path:
        """The decision."""
        return self.directory / VERDICT

    @property
    def outcome(self) -> Path:
        """The verdict in short, with its place among the refreshes of the window."""
        return self.directory / OUTCOME

    @property
    def parameters(self) -> Path:
        """The decided method, fitted with the newest window."""
        return self.directory / "parameters"

    @property
    def renewed_parameters(self) -> Path:
        """The method that serves, fitted with the newest window while a change to another one is held."""
        return self.directory / "renewed-parameters"

    @property
    def versions(self) -> Path:
        """The versions that the refresh registered."""
        return self.directory / VERSIONS

    @property
    def report(self) -> Path:
        """The page for people, with its figures."""
        return self.directory / "report"

    @property
    def report_page(self) -> Path:
        """The page itself."""
        return self.report / "report.html"


def refreshes_in(refreshes: Path, window: Window | None = None) -> Iterator[RefreshFiles]:
    """Every planned refresh below a deployment's directory, or of one of its windows, in window order."""
    for plan in sorted(refreshes.glob(f"{window.key if window else '[!.]*'}/[!.]*/{PLAN}")):
        yield RefreshFiles(plan.parent)
