"""Log lines of a step have deployment and window; its duration is stored; failures of both do not fail it."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import structlog

from slc_ops.base.files import read_json
from slc_ops.base.window import Window
from slc_ops.observability.logs import configure_logs
from slc_ops.refresh.observed import observed, step
from slc_ops.settings.environment import Installation

ROOT = Path(__file__).parent.parent.parent
WINDOW = Window.parse("2026-03-23/2026-03-30")


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation(tmp_path, tmp_path / "deployments.yaml", "", "", "")


@observed
def extract(installation: Installation, name: str, window: Window) -> str:
    logging.getLogger("slc_ops.intake.anything").warning("half of it is missing")
    return "rows"


@observed
def fit(plan: SimpleNamespace, fold: SimpleNamespace) -> str:
    return decide(plan)


@observed
def decide(plan: SimpleNamespace) -> str:
    return "promote"


@observed
def publish(plan: SimpleNamespace) -> None:
    raise RuntimeError("the server is gone")


@pytest.fixture
def plan(installation: Installation) -> SimpleNamespace:
    directory = installation.refreshes("demo") / WINDOW.key / "0123456789abcdef"
    return SimpleNamespace(deployment="demo", window=WINDOW, directory=directory)


def records(installation: Installation) -> dict[str, str]:
    directory = installation.refreshes("demo") / WINDOW.key / "steps"
    return {path.stem: read_json(path)["outcome"] for path in sorted(directory.glob("*.json"))}


SCRIPT = """
import sys
from pathlib import Path
from slc_ops.observability.logs import configure_logs
from tests.refresh.test_observed import WINDOW, Installation, extract

configure_logs()
home = Path(sys.argv[1])
extract(Installation(home, home / "deployments.yaml", "", "", ""), "demo", WINDOW)
"""


def test_every_log_line_has_deployment_window_and_step(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        cwd=ROOT, env=os.environ | {"SLC_OPS_LOG": "json"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = [json.loads(line) for line in result.stderr.splitlines()]
    assert [line["event"] for line in lines][1] == "half of it is missing"
    assert len(lines) == 3
    for line in lines:
        assert (line["deployment"], line["window"], line["step"]) == ("demo", str(WINDOW), "extract")


def test_the_logging_context_is_cleared_after_a_step(installation: Installation) -> None:
    extract(installation, "demo", WINDOW)
    assert structlog.contextvars.get_contextvars() == {}


def test_the_record_has_start_and_end(installation: Installation) -> None:
    extract(installation, "demo", WINDOW)
    record = read_json(installation.refreshes("demo") / WINDOW.key / "steps" / "extract.json")
    assert record["started"] <= record["ended"]


def test_a_nested_step_belongs_to_the_outer_one(installation: Installation, plan: SimpleNamespace) -> None:
    assert fit(plan, fold=SimpleNamespace(key="2026-02-16")) == "promote"
    assert records(installation) == {"fit-2026-02-16": "finished"}


def test_a_failing_step_is_recorded_as_failed_and_raises(
    installation: Installation, plan: SimpleNamespace
) -> None:
    with pytest.raises(RuntimeError, match="gone"):
        publish(plan)
    assert records(installation) == {"publish": "failed"}
    decide(plan)
    assert records(installation) == {"decide": "finished", "publish": "failed"}


def test_a_record_that_cannot_be_written_does_not_fail_the_step(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "steps").write_text("a file where the directory should be")
    with step("decide", "demo", WINDOW, tmp_path):
        pass
    assert "was not written" in caplog.text


def test_an_unknown_log_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from slc_ops.base.errors import SettingsError

    monkeypatch.setenv("SLC_OPS_LOG", "xml")
    with pytest.raises(SettingsError, match="SLC_OPS_LOG must be json or unset, found 'xml'"):
        configure_logs()
