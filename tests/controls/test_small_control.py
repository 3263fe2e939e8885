"""A complete control on a small ratings file: the refresh, the decision, the run in MLflow, the command."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from slc_ops.base.errors import SettingsError
from slc_ops.base.mlflow_client import connect
from slc_ops.cli import app
from slc_ops.controls.arms import Request
from slc_ops.controls.run import prepare, run
from slc_ops.settings.environment import Installation

pytestmark = pytest.mark.slow


def checks(verdict: Any, arm: str) -> dict[str, bool]:
    return {check.check: check.passed for check in verdict.checks if check.arm == arm}


def test_every_arm_runs_a_complete_refresh_and_registers_nothing(
    installation: Installation, ratings: Path
) -> None:
    verdict = run(installation, "movielens", Request(ratings, "mf", 0), print)

    assert [arm["name"] for arm in verdict.arms] == ["mf-seed0", "users"]
    negative, contrast = checks(verdict, "mf-seed0"), checks(verdict, "users")
    assert negative["platt"]
    assert negative["models its items"]
    assert contrast["decision"]
    assert all(contrast.values())
    assert Path(str(verdict.report)).is_file()
    client = connect(installation.tracking_uri)
    seen = client.get_run(str(verdict.run_id))
    assert seen.data.tags["passed"] == str(verdict.passed).lower()
    assert seen.data.metrics["users.slc_eb.auc_gain.low"] > 0
    assert {found.path for found in client.list_artifacts(verdict.run_id)} == {"control.json", "report"}
    assert client.search_registered_models() == []
    assert not (installation.home / "ledger.db").exists()


def test_a_rule_that_never_finds_a_method_ahead_fails_the_contrast(
    installation: Installation, ratings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLC_OPS_HOME", str(tmp_path))
    monkeypatch.setattr("slc_ops.controls.verdict.is_ahead", lambda entries, method: False)
    out = tmp_path / "verdict.json"
    arguments = ["control", "movielens", "--data", str(ratings), "--backbone", "mf", "--seed", "0"]
    done = CliRunner().invoke(app, [*arguments, "--json", str(out)])
    assert done.exit_code == 1, done.output
    assert "FAIL" in done.output
    answer = json.loads(out.read_text())
    assert answer["passed"] is False
    failed = {(check["arm"], check["check"]) for check in answer["checks"] if not check["passed"]}
    assert ("users", "decision") in failed


def test_unknown_names_are_refused(installation: Installation) -> None:
    with pytest.raises(SettingsError, match="there are flight-delay, movielens"):
        prepare(installation, "weather", Request(), print)
    with pytest.raises(SettingsError, match="there are bbA, bbB"):
        prepare(installation, "flight-delay", Request(backbone="mf"), print)
