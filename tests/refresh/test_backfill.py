"""The weeks that a backfill refreshes."""

from datetime import UTC, datetime

import pytest

from slc_ops.base.errors import SettingsError
from slc_ops.refresh.backfill import BackfillWindow, windows_between
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.sources import LakeSource
from tests.registry.factory import WEEKS

DUE = datetime(2026, 3, 4, 12, tzinfo=UTC)
DEMO = Deployment(source=LakeSource(path="lake"), start="2026-01-05")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("start", "end", "why"),
    [
        ("2026-02-23", "2026-02-02", "reversed"),
        ("2026-02-02", "2026-02-02", "empty"),
        ("2026-02-03", "2026-02-16", "take 2026-02-02 or 2026-02-09"),
        ("2026-02-02", "2026-02-15", "take 2026-02-09 or 2026-02-16"),
        ("2026-02-02", "2026-03-09", "future: the newest complete week ends 2026-03-02"),
        ("2025-12-29", "2026-01-12", "not inside the deployment's time"),
        ("../../etc", "2026-02-16", "not a date"),
        ("2026-02-02; rm -rf /", "2026-02-16", "not a date"),
    ],
)
def test_an_invalid_range_is_refused(start: str, end: str, why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        windows_between(DEMO, start, end, DUE)


def test_the_last_week_is_the_last_complete_one_of_the_deployment() -> None:
    ended = DEMO.model_copy(update={"end": datetime(2026, 2, 16).date()})  # noqa: DTZ001 - a date
    assert len(windows_between(ended, "2026-01-05", "2026-02-16", DUE)) == 6
    with pytest.raises(SettingsError, match="not inside"):
        windows_between(ended, "2026-01-05", "2026-02-23", DUE)


def test_a_range_longer_than_airflow_can_map_is_refused() -> None:
    old = DEMO.model_copy(update={"start": datetime(2000, 1, 3).date()})  # noqa: DTZ001 - a date
    with pytest.raises(SettingsError, match="at most 1000"):
        windows_between(old, "2000-01-03", "2026-02-16", DUE)


def test_finished_weeks_are_skipped_unless_asked_for_again() -> None:
    assert BackfillWindow(WEEKS[0], (), False, again=False).due
    assert not BackfillWindow(WEEKS[0], (4,), False, again=False).due
    assert not BackfillWindow(WEEKS[0], (), True, again=False).due
    assert BackfillWindow(WEEKS[0], (4,), False, again=True).due
