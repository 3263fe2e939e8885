"""A pytest plugin (``-p tests.faults.table``): writes the results of fault tests to docs/performance.md.

``@pytest.mark.faults(what, result)`` names the fault of a test and the expected result,
``record_property("runs", n)`` the number of runs. The table has one row per fault; tests with the same text
share one. A run of some tests replaces only their rows.
"""

import platform
from pathlib import Path
from typing import Any

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "performance.md"
BEGIN, END = "<!-- make faults: begin -->", "<!-- make faults: end -->"


class Table:
    """The rows of a run, in the order of the tests."""

    def __init__(self, whole: bool) -> None:
        self.whole = whole
        self.rows: dict[tuple[str, str], list[int]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
        """Record a finished test."""
        report: pytest.TestReport = yield
        marker = item.get_closest_marker("faults")
        if marker is None or len(marker.args) != 2 or report.when != "call" or report.skipped:
            return report
        runs = dict(report.user_properties).get("runs", 1)
        row = self.rows.setdefault(marker.args, [0, 0])
        row[0] += int(runs)
        row[1] += report.failed
        return report

    def pytest_sessionfinish(self) -> None:
        """Write the table between its markers in the page."""
        if not self.rows:
            return
        head, rest = DOCUMENT.read_text(encoding="utf-8").split(BEGIN)
        before, tail = rest.split(END)
        kept = [line for line in before.splitlines() if line.startswith("| ")][1:]
        lines = {} if self.whole else {line.split(" | ")[0]: line for line in kept}
        for (what, result), (runs, failed) in self.rows.items():
            says = f"**failed** ({failed}): {result}" if failed else result
            lines[f"| {what}"] = f"| {what} | {runs} | {says} |"
        system = f"Python {platform.python_version()}, {platform.system()}"
        table = ["| what | how often | result |", "|---|---|---|", *lines.values()]
        written = "\n".join([BEGIN, "", *table, "", f"Written by `make faults` ({system}).", "", END])
        DOCUMENT.write_text(head + written + tail, encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Start a table."""
    config.pluginmanager.register(Table(whole=not config.option.file_or_dir))
