"""Rows per day compared with the same day of the trailing windows."""

import pytest

from slc_ops.base.errors import ValidationStopped
from slc_ops.intake.extract import extract
from slc_ops.quality.statistics import statistics_of
from tests.quality.damage import thinned
from tests.quality.lake_bench import DEPLOYMENT, NEWEST, ROWS, Bench

SUNDAY = {6}
WEEKEND = {5, 6}


def test_a_last_day_with_60_percent_fewer_rows_gives_a_warning(bench: Bench) -> None:
    thinned(NEWEST, SUNDAY, 0.6)(bench)
    result = bench.validate()
    assert result.status == "warned"
    (finding,) = result.findings
    assert finding.code == "rows_by_day"
    assert finding.observed.startswith("0.")
    assert "2026-02-01: " in finding.observed
    assert "Sun 2026-02-01" in result.docs_path.read_text()


def test_a_missing_day_can_be_configured_to_stop_the_refresh(bench: Bench) -> None:
    bench.configure(quality={"rows_by_day": {"warn": [0.8, 1.5], "stop": [0.5, 2.0]}})
    thinned(NEWEST, SUNDAY, 0.6)(bench)
    with pytest.raises(ValidationStopped, match=r"rows_by_day: rows of any one day.*2026-02-01"):
        bench.validate()


def test_a_weekly_pattern_gives_no_warning(bench: Bench) -> None:
    for window in (*NEWEST.before(3), NEWEST):
        thinned(window, WEEKEND, 0.5)(bench)
    result = bench.validate(again=True)
    assert "rows_by_day" not in {finding.code for finding in result.findings}
    counts = statistics_of(extract(DEPLOYMENT, NEWEST, bench.installation.windows("demo")), 50.0).rows_by_day
    assert max(counts[5:]) < 0.7 * min(counts[:5])  # the pattern is present


def test_a_day_with_few_rows_every_week_gives_no_warning(bench: Bench) -> None:
    for window in NEWEST.before(3):
        thinned(window, SUNDAY, 0.9)(bench)
    thinned(NEWEST, SUNDAY, 1.0)(bench)
    result = bench.validate(again=True)
    assert "rows_by_day" not in {finding.code for finding in result.findings}


def test_days_are_counted_from_the_start_of_the_window(bench: Bench) -> None:
    bench.validate()
    found = statistics_of(extract(DEPLOYMENT, NEWEST, bench.installation.windows("demo")), 50.0)
    dates = bench.read().to_pandas()["event_time"].dt.date.value_counts().sort_index()
    assert found.rows_by_day == dates.tolist()
    assert sum(found.rows_by_day) == ROWS
