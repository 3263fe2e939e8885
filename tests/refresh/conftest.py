"""An empty home with one deployment on seven weeks of a small platform."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from slc_ops.quality.rules import Rule
from slc_ops.quality.suite import Evaluated
from slc_ops.settings.environment import Installation
from tests.refresh.school import open_school


@pytest.fixture(scope="module", autouse=True)
def _without_figures_and_suite(request: pytest.FixtureRequest) -> Iterator[None]:
    """Skip the two most expensive parts of a small refresh, except in ``test_pipeline``.

    Tests of reports check the figures. The rules give the verdicts of Great Expectations' suite; tests of
    validation compare both.
    """
    if request.module.__name__.endswith("test_pipeline"):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slc_ops.reporting.report.draw_all", lambda *_: {})
        patch.setattr("slc_ops.quality.verdict.evaluate", by_rules)
        yield


def by_rules(table: Mapping[str, Any], rules: Sequence[Rule]) -> list[Evaluated]:
    """The results of a suite without Great Expectations."""
    asked = [(rule, table[rule.measure]) for rule in rules if rule.measure in table]
    return [Evaluated(rule, "rule", value, rule.met_by(value)) for rule, value in asked]


@pytest.fixture
def school(tmp_path: Path, lake: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """An empty home with one deployment on a private copy of the lake."""
    return open_school(tmp_path, lake, monkeypatch)
