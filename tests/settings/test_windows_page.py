"""The page about the log and its windows: every command, program and example on it works."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from slc_ops.cli import app
from slc_ops.settings.deployments_file import load_deployments
from tests.pages import commands, shell, to_run

PAGE = Path(__file__).parents[2] / "docs" / "log.md"
BLOCKS = [block.text for block in to_run(PAGE, "yaml")]


@pytest.mark.parametrize("block", BLOCKS)
def test_every_example_is_a_deployments_file(block: str, tmp_path: Path) -> None:
    (tmp_path / "deployments.yaml").write_text(block)
    assert load_deployments(tmp_path / "deployments.yaml")


def test_an_invalid_file_is_refused_as_on_the_page(tmp_path: Path) -> None:
    refused, _ = to_run(PAGE, "console")
    for step in commands(refused):
        step.check(shell(step.text, tmp_path))


def test_the_command_writes_the_files_on_the_page(tmp_path: Path) -> None:
    _, block = to_run(PAGE, "console")
    (step,) = commands(block)
    arguments = step.text.replace("lake/late", str(tmp_path / "late")).split()[1:]
    shown = CliRunner().invoke(app, [*arguments, "--rows-per-week", "50"])
    assert shown.exit_code == 0, shown.output
    assert {"predictions", "labels"} <= {path.name for path in (tmp_path / "late").iterdir()}


@pytest.mark.slow
def test_a_dag_may_use_the_windows_as_on_the_page() -> None:
    (program,) = to_run(PAGE, "python")
    names: dict[str, Any] = {}
    exec(compile(program.text, "log.md", "exec"), names)  # noqa: S102 - our own page
    assert names["dag"].timetable.asset_condition.uri == "slc://shop/window/partitions"


def test_the_example_of_daily_windows_in_a_zone_is_correct(tmp_path: Path) -> None:
    (tmp_path / "deployments.yaml").write_text(BLOCKS[0])
    shop = load_deployments(tmp_path / "deployments.yaml")["shop"]
    sunday = shop.cadence.parse("2026-03-29/2026-03-30")
    assert (sunday.end - sunday.start).total_seconds() == 23 * 3600
    assert shop.window_due(sunday.end) == sunday
