"""The file names of one refresh; no other module spells them.

A lower package names the files in its own directory (a score, a parameter set, the detectability table).
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
"""Beside the refreshes of a window: the times and the outcome of each step."""


@dataclass(frozen=True)
class RefreshFiles:
    """The paths of one refresh: ``<refreshes>/<window>/<key>/``."""

    directory: Path

    @property
    def plan(self) -> Path:
        """The plan; written first."""
        return self.directory / PLAN

    @property
    def windows(self) -> Path:
        """The rows of the plan."""
        return self.directory / "windows"

    @property
    def earlier(self) -> Path:
        """The fit of ``slc_eb`` on rows of the previous backbone, if the plan has some."""
        return self.directory / "earlier"

    @property
    def scores(self) -> Path:
        """One directory per fold and method."""
        return self.directory / SCORES

    @property
    def backtest(self) -> Path:
        """The comparison of the methods and the champion."""
        return self.directory / "backtest.json"

    @property
    def detectability(self) -> Path:
        """The drifts that the rows could show."""
        return self.directory / "detectability"

    @property
    def verdict(self) -> Path:
        """The decision."""
        return self.directory / VERDICT

    @property
    def outcome(self) -> Path:
        """A summary of the verdict, with its position among the refreshes of the window."""
        return self.directory / OUTCOME

    @property
    def parameters(self) -> Path:
        """The decided method, fitted with the newest window."""
        return self.directory / "parameters"

    @property
    def renewed_parameters(self) -> Path:
        """The serving method, fitted with the newest window while a change to another one is held."""
        return self.directory / "renewed-parameters"

    @property
    def versions(self) -> Path:
        """The versions that the refresh registered."""
        return self.directory / VERSIONS

    @property
    def report(self) -> Path:
        """The directory of the report, with its figures."""
        return self.directory / "report"

    @property
    def report_page(self) -> Path:
        """The report's page."""
        return self.report / "report.html"


def refreshes_in(refreshes: Path, window: Window | None = None) -> Iterator[RefreshFiles]:
    """Yield every planned refresh below a deployment's directory, or of one window, in window order."""
    for plan in sorted(refreshes.glob(f"{window.key if window else '[!.]*'}/[!.]*/{PLAN}")):
        yield RefreshFiles(plan.parent)
