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
VERSION = "version.json"
SCORES = "scores"


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
    def renewed(self) -> Path:
        """The version that renews the method that serves while a change of it waits for a person."""
        return self.directory / "renewed.json"

    @property
    def renewed_parameters(self) -> Path:
        """Its parameters."""
        return self.directory / "renewed-parameters"

    @property
    def parameters(self) -> Path:
        """The decided method, fitted with the newest window."""
        return self.directory / "parameters"

    @property
    def report(self) -> Path:
        """The page for people, with its figures."""
        return self.directory / "report"

    @property
    def report_page(self) -> Path:
        """The page itself."""
        return self.report / "report.html"

    @property
    def version(self) -> Path:
        """The version that the refresh published."""
        return self.directory / VERSION


def refreshes_in(refreshes: Path, window: Window | None = None) -> Iterator[RefreshFiles]:
    """Every planned refresh below a deployment's directory, or of one of its windows, in window order."""
    for plan in sorted(refreshes.glob(f"{window.key if window else '[!.]*'}/[!.]*/{PLAN}")):
        yield RefreshFiles(plan.parent)
