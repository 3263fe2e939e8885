"""A manual refresh uses the windows of the deployment unless forced otherwise."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from slc_ops.base.errors import SettingsError
from slc_ops.base.window import Window
from slc_ops.cli import app
from slc_ops.refresh import pipeline
from slc_ops.refresh.pipeline import check_window
from slc_ops.settings.environment import Installation
from tests.refresh.school import NEWEST, configure


@pytest.mark.parametrize(
    ("window", "instead"),
    [
        (
            "2026-02-17/2026-02-24",
            "refresh 2026-02-16/2026-02-23 or 2026-02-23/2026-03-02, or give --off-grid",
        ),
        ("2026-02-09/2026-02-23", "refresh 2026-02-09/2026-02-16 or 2026-02-16/2026-02-23, or"),
        ("2026-02-16/2026-02-19", "refresh 2026-02-16/2026-02-23, or"),
        (
            "2026-02-16T01:00:00Z/2026-02-23T01:00:00Z",
            "refresh 2026-02-16/2026-02-23 or 2026-02-23/2026-03-02",
        ),
    ],
)
def test_a_window_off_the_grid_is_refused_with_the_right_one(
    school: Installation, window: str, instead: str
) -> None:
    with pytest.raises(SettingsError, match="is no week of 'school'") as refusal:
        pipeline.refresh(school, "school", Window.parse(window))
    assert instead in str(refusal.value)
    assert not school.windows("school").exists()

    shown = CliRunner().invoke(app, ["refresh", "--deployment", "school", "--window", window])
    assert shown.exit_code != 0
    assert instead in shown.output + str(shown.exception)


def test_a_week_of_the_grid_is_accepted(school: Installation) -> None:
    check_window(school, "school", NEWEST)


@pytest.mark.slow
def test_a_forced_window_off_the_grid_blocks_the_weeks_it_overlaps(
    school: Installation,
) -> None:
    configure(school, link_windows=1, offset_windows=1, evidence_windows=1)
    tuesdays = Window.parse("2026-02-10/2026-02-17")
    arguments = ["refresh", "--deployment", "school", "--window", str(tuesdays), "--off-grid"]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0, shown.output

    with pytest.raises(SettingsError, match="overlaps with 2026-02-10/2026-02-17"):
        pipeline.refresh(school, "school", NEWEST)
    check_window(school, "school", NEWEST.before(2)[0])


@pytest.mark.slow
def test_every_step_is_printed_with_its_duration(school: Installation, tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["refresh", "--deployment", "school", "--window", str(NEWEST)])
    lines = [line.split() for line in shown.output.splitlines() if line.endswith(" s")]
    steps = [" ".join(words[:-2]) for words in lines]
    assert steps == [
        "extract", "validate", *(f"fit {window}" for window in [*NEWEST.before(1), NEWEST]), "backtest",
        "detectability", "decide", "publish", "promote",
    ]  # fmt: skip
    assert all(float(words[-2]) >= 0 for words in lines)
