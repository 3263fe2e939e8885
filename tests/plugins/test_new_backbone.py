"""The page on the day of a new backbone and after it, consistent with serving, status and messages."""

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from slc_ops.demo.simulate import simulate
from slc_ops.settings.environment import Installation
from tests.plugins.conftest import register
from tests.refresh.backbones import SETTINGS, champion_of, first_steps, furnish
from tests.refresh.school import configure

pytestmark = pytest.mark.slow
DAG = "slc_weekly_refresh__school"


@pytest.fixture
def school(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, application: Any) -> Installation:
    """Twelve weeks, and a DAG in Airflow's database."""
    simulate(tmp_path / "made", weeks=12, users=300, items=60, seed=11, start="2026-01-05")
    register([DAG])
    return furnish(tmp_path, tmp_path / "made", monkeypatch)


def test_the_page_reports_the_new_backbone_from_the_first_day(
    admin: TestClient, school: Installation
) -> None:
    old = champion_of(school, 8)
    assert f"version {old}, for" in admin.get("/slc/").text

    first_steps(school, 9)

    overview, own = (admin.get(path).text for path in ("/slc/", "/slc/school"))
    reason = "the backbone changed from gru-7 to gru-8 in window 2026-03-09/2026-03-16"
    assert "retired, for less than a minute: the frozen model serves" in overview
    assert f"{reason} (refresh)" in overview
    assert "the frozen model serves for less than a minute" in own
    assert f"retired: {reason}" in own
    assert f"version {old}, for" not in overview

    new = champion_of(school, 10)
    assert f"version {new}, for" in admin.get("/slc/").text


def test_a_kept_champion_is_marked_on_the_page(admin: TestClient, school: Installation) -> None:
    old = champion_of(school, 8)
    configure(school, **SETTINGS, champion_of_another_backbone="keep", gate="never")
    first_steps(school, 9)
    page = admin.get("/slc/").text
    assert f"version {old}, for" in page
    assert 'gru-8 in window <span class="days">2026-03-09/2026-03-16</span>' in page
    assert "it still serves, by your rule" in page
