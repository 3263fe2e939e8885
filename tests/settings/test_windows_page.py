"""The page about windows says what works."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from slc_ops.cli import app
from slc_ops.settings.deployments import load_deployments

PAGE = Path(__file__).parents[2] / "docs" / "windows.md"
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_every_example_is_a_deployments_file(block: str, tmp_path: Path) -> None:
    (tmp_path / "deployments.yaml").write_text(block)
    assert load_deployments(tmp_path / "deployments.yaml")


def test_the_command_writes_what_the_page_says(tmp_path: Path) -> None:
    (command,) = re.findall(r"```\nslc-ops (simulate .*)\n```", PAGE.read_text(encoding="utf-8"))
    arguments = command.replace("lake/late", str(tmp_path / "late")).split()
    shown = CliRunner().invoke(app, [*arguments, "--rows-per-week", "50"])
    assert shown.exit_code == 0, shown.output
    assert {"predictions", "labels"} <= {path.name for path in (tmp_path / "late").iterdir()}


def test_an_example_of_a_daily_zone_means_what_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "deployments.yaml").write_text(BLOCKS[0])
    shop = load_deployments(tmp_path / "deployments.yaml")["shop"]
    sunday = shop.cadence.parse("2026-03-29/2026-03-30")
    assert (sunday.end - sunday.start).total_seconds() == 23 * 3600
    assert shop.window_due(sunday.end) == sunday
