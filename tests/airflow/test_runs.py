"""Which week a run refreshes, and which references it accepts."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from airflow.sdk import Asset

from slc_ops.airflow.runs import planned, window_of
from slc_ops.airflow.waiting import asset_named
from slc_ops.base.errors import SettingsError
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.environment import Installation
from slc_ops.settings.sources import LakeSource

DEMO = Deployment(source=LakeSource(path="lake"), start="2026-01-05", end="2026-03-30")  # type: ignore[arg-type]
LATE = datetime(2026, 11, 16, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    "end",
    [
        datetime(2026, 2, 23, tzinfo=UTC),  # Mondays at 00:00
        datetime(2026, 2, 23, 6, tzinfo=UTC),  # Mondays at 06:00, for late rows
        datetime(2026, 2, 26, tzinfo=UTC),  # daily: the newest complete week, each day
    ],
)
def test_a_run_refreshes_the_last_week_that_was_complete_when_its_interval_ended(end: datetime) -> None:
    assert str(window_of(DEMO, end, LATE)) == "2026-02-16/2026-02-23"


def test_a_run_without_an_interval_refreshes_the_newest_week_of_the_deployment() -> None:
    assert str(window_of(DEMO, None, datetime(2026, 3, 4, 12, tzinfo=UTC))) == "2026-02-23/2026-03-02"
    assert str(window_of(DEMO, None, LATE)) == "2026-03-23/2026-03-30"


@pytest.mark.parametrize(
    "text",
    [
        "../../etc/0123456789abcdef",
        "/etc/passwd",
        "2026-01-05/..",
        "2026-01-05/0123456789abcdeg",
        "",
        "x" * 5000,
    ],
)
def test_an_invalid_reference_is_refused_before_it_becomes_a_path(
    installation: Installation, text: str
) -> None:
    with pytest.raises(SettingsError, match="not a reference"):
        planned(installation, "school", text)


def test_a_missing_refresh_of_another_host_is_explained(installation: Installation) -> None:
    with pytest.raises(SettingsError, match="share SLC_OPS_HOME"):
        planned(installation, "school", "2026-01-05/0123456789abcdef")
    assert not Path(installation.refreshes("school")).exists()


@pytest.mark.parametrize("uri", ["lake://raw", "s3://bucket/logs/", "x-own://as/it/is/"])
def test_an_asset_is_identified_by_the_uri_that_airflow_stores(uri: str) -> None:
    assert asset_named(uri) == Asset.ref(uri=Asset(name="raw log", uri=uri).uri)
    assert asset_named("raw log") == Asset.ref(name="raw log")
