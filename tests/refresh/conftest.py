"""An empty home with one deployment on seven weeks of a small platform."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from slc_ops.demo.simulate import simulate
from slc_ops.settings.environment import Installation
from tests.refresh.school import open_school


@pytest.fixture(scope="module", autouse=True)
def _reports_without_figures(request: pytest.FixtureRequest) -> Iterator[None]:
    """Skip figures, which take most of the time of a small refresh; other tests check them."""
    if request.module.__name__.endswith("test_pipeline"):
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slc_ops.reporting.report.draw_all", lambda *_: {})
        yield


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven weeks of a small platform."""
    out = tmp_path_factory.mktemp("lake")
    simulate(out, weeks=7, users=300, items=60, seed=11, start="2026-01-05")
    return out


@pytest.fixture
def school(tmp_path: Path, lake: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """An empty home with one deployment on a private copy of the lake."""
    return open_school(tmp_path, lake, monkeypatch)
