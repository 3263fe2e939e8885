"""A rollback with ``--exclude-window`` through complete refreshes: no later fit uses that window."""

import pytest
from click.testing import CliRunner

from slc_ops.base.window import Window
from slc_ops.cli import app
from slc_ops.refresh import pipeline
from slc_ops.refresh.plan import Plan
from slc_ops.registry import Registry
from slc_ops.settings.environment import Installation
from tests.refresh.school import NEWEST

WRONG, LATER = NEWEST.before(1)[0], NEWEST


def refreshed(installation: Installation, window: Window) -> Plan:
    return pipeline.refresh(installation, "school", window, tell=lambda _: None)


@pytest.mark.slow
def test_no_later_refresh_uses_an_excluded_window(school: Installation) -> None:
    registry = Registry.open(school)
    first, second = NEWEST.before(2)
    refreshed(school, first)
    if registry.champion("school") is None:
        registry.promote("school", 1, actor="ann", reason="first", override="for the test")
    refreshed(school, second)
    champion = registry.champion("school")
    assert champion is not None
    assert champion.window == WRONG

    taken_back = ["rollback", "--deployment", "school", "--actor", "ann", "--reason", "a broken export"]
    said = CliRunner().invoke(app, [*taken_back, "--exclude-window"], catch_exceptions=False)
    assert said.exit_code == 0, said.output
    plan = refreshed(school, LATER)

    assert WRONG not in [each.window for each in plan.pinned]
    (reason,) = [each for each in plan.excluded if each["window"] == str(WRONG)]
    assert reason["kind"] == "taken_back"
    assert "ann" in reason["reason"]
    assert "a broken export" in reason["reason"]
