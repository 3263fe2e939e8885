"""The file names of one refresh; no other module spells them.

A lower package names the files in its own directory (a score, a parameter set, the detectability table).
"""

from collections.abc import Iterator
from pathlib import Path

PLAN = "plan.json"
OUTCOME = "outcome.json"
VERSIONS = "versions.json"
SCORES = "scores"
STEPS = "steps"
"""Beside the refreshes of a window: the times and the outcome of each step."""


class RefreshFiles:
    """The paths of one refresh: ``<refreshes>/<window>/<key>/``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.refreshes = directory.parent.parent
        """The directory of all refreshes of the deployment."""
        self.plan = directory / PLAN
        """The plan; written first."""
        self.windows = directory / "windows"
        """The rows of the plan."""
        self.earlier = directory / "earlier"
        """The fit of ``slc_eb`` on rows of the previous backbone, if the plan has some."""
        self.scores = directory / SCORES
        """One directory per fold and method."""
        self.backtest = directory / "backtest.json"
        """The comparison of the methods and the champion."""
        self.detectability = directory / "detectability"
        """The drifts that the rows could show."""
        self.verdict = directory / "verdict.json"
        """The decision."""
        self.outcome = directory / OUTCOME
        """A summary of the verdict, with its position among the refreshes of the window."""
        self.parameters = directory / "parameters"
        """The decided method, fitted with the newest window."""
        self.renewed_parameters = directory / "renewed-parameters"
        """The serving method, fitted with the newest window while a change to another one is held."""
        self.versions = directory / VERSIONS
        """The versions that the refresh registered."""
        self.report = directory / "report"
        """The directory of the report, with its figures."""
        self.report_page = self.report / "report.html"
        """The report's page."""

    def line_parameters(self, method: str) -> Path:
        """Return the parameters of a line, which the next refresh compares."""
        return self.directory / f"{method}-parameters"


def refreshes_in(refreshes: Path) -> Iterator[RefreshFiles]:
    """Yield the refreshes below a deployment's directory, in window order."""
    for path in sorted(refreshes.glob(f"[!.]*/[!.]*/{PLAN}")):
        yield RefreshFiles(path.parent)
