"""The commands status, history, promote, rollback and verify, in text and JSON."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from slc_ops.base.errors import SlcError
from slc_ops.cli import app
from slc_ops.registry import Registry
from tests.registry.conftest import parameters
from tests.registry.factory import WEEKS, copy_home, installation_in, publication

__all__ = ["parameters"]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, parameters: Path) -> Path:
    """A home with two published weeks and a rejected one."""
    home = tmp_path_factory.mktemp("published")
    registry = Registry.open(installation_in(home))
    for week, verdict in ((0, "promote"), (1, "promote"), (2, "reject")):
        registry.publish(publication(parameters, window=WEEKS[week], verdict={"verdict": verdict}))
    return home


@pytest.fixture
def home(tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """The embedded registry of a copy of that home, in the environment."""
    copy_home(kept, tmp_path)
    for name in ("MLFLOW_TRACKING_URI", "SLC_OPS_LEDGER_URL", "SLC_OPS_ARTIFACT_ROOT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SLC_OPS_HOME", str(tmp_path))
    monkeypatch.setenv("SLC_OPS_ACTOR", "ann")
    return Registry.open(installation_in(tmp_path))


def call(*arguments: str) -> Any:
    """Run a command with ``--json -`` and parse its output."""
    result = CliRunner().invoke(app, [*arguments, "--json", "-"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(*arguments: str) -> str:
    """Run a command that must fail with a typed error; return its message."""
    result = CliRunner().invoke(app, list(arguments))
    assert isinstance(result.exception, SlcError), result.output
    return str(result.exception)


@pytest.mark.slow
def test_status_has_the_shape_of_the_contract(home: Registry) -> None:
    call("promote", "--deployment", "demo", "--version", "1")
    answer = call("status")
    champion = answer["deployments"]["demo"]["champion"]
    assert (champion["version"], champion["method"], champion["verdict"]) == (1, "slc", "promote")
    assert champion["window"] == {"start": "2026-01-05T00:00:00+00:00", "end": "2026-01-12T00:00:00+00:00"}
    assert champion["metrics"]["auc"] == 0.71
    assert answer["deployments"]["demo"]["challenger"]["version"] == 3
    assert answer["tracking_uri"].startswith("sqlite:///")


@pytest.mark.slow
def test_status_distinguishes_method_and_parameters(home: Registry, parameters: Path) -> None:
    gain = {"estimate": -0.0122, "low": -0.015, "high": -0.0094}
    series = {"windows": 8, "vs_platt": gain, "vs_base": {**gain, "estimate": -0.05}}
    for version in ("1", "2"):
        call("promote", "--deployment", "demo", "--version", version)
    found = call("status")["deployments"]["demo"]["serves"]
    assert (found["method"], found["series"]) == ("slc", None)
    assert found["since"] == WEEKS[0].as_dict()
    assert found["parameters"] == WEEKS[1].as_dict()

    began = {"windows": 3, "vs_base": {**gain, "estimate": -0.06}}
    metrics = {"auc": 0.7, "series": series, "since_start": began}
    home.publish(publication(parameters, window=WEEKS[3], metrics=metrics))
    call("promote", "--deployment", "demo", "--version", "4")
    assert call("status")["deployments"]["demo"]["serves"]["series"] == series
    output = CliRunner().invoke(app, ["status"], catch_exceptions=False, env={"COLUMNS": "80"}).output
    assert f"demo: slc serves since window {WEEKS[0].key}" in output
    assert f"its parameters are of window {WEEKS[3].key}" in output
    assert "NLL against Platt  −0.0122 [−0.0150, −0.0094], mean of 8 windows" in output
    assert "NLL against frozen −0.0500" in output
    assert "NLL against frozen −0.0600 [−0.0150, −0.0094], mean of 3 windows it served" in output


def test_status_lists_the_deployments_of_the_file_before_any_publication(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLC_OPS_HOME", str(tmp_path))
    found = call("status")["deployments"]["demo"]
    assert found == {
        "champion": None,
        "serves": None,
        "retired": None,
        "taken_back": [],
        "challenger": None,
        "findings": [],
        "troubles": [],
    }
    monkeypatch.setenv("SLC_OPS_DEPLOYMENTS", str(tmp_path / "other.yaml"))
    assert call("status")["deployments"] == {}
    (tmp_path / "other.yaml").write_text("deployments: [")
    assert call("status")["deployments"] == {}


def test_status_and_history_print_readable_tables(home: Registry) -> None:
    call("promote", "--deployment", "demo", "--version", "1", "--reason", "better")
    for command in (["status"], ["history", "--deployment", "demo"]):
        output = CliRunner().invoke(app, command, catch_exceptions=False).output
        assert "champion" in output.lower()
    assert "ann" in output


def test_promote_uses_the_challenger_by_default_and_a_rejected_version_needs_an_override(
    home: Registry,
) -> None:
    assert "--override" in refused("promote", "--deployment", "demo")
    answer = call("promote", "--deployment", "demo", "--override", "we know better")
    assert answer["champion"]["version"] == 3
    (move,) = call("history", "--deployment", "demo")["moves"]
    assert (move["actor"], move["override"], move["reason"]) == ("ann", "we know better", "we know better")


def test_rollback_is_one_command(home: Registry) -> None:
    for version in ("1", "2"):
        call("promote", "--deployment", "demo", "--version", version)
    assert call("rollback", "--deployment", "demo")["champion"]["version"] == 1
    assert call("rollback", "--deployment", "demo", "--to", "2")["champion"]["version"] == 2
    kinds = [move["kind"] for move in call("history", "--deployment", "demo")["moves"]]
    assert kinds == ["promotion", "promotion", "rollback", "rollback"]


def test_an_older_window_is_refused(home: Registry) -> None:
    call("promote", "--deployment", "demo", "--version", "2")
    assert "older" in refused("promote", "--deployment", "demo", "--version", "1")


def test_against_refuses_another_champion(home: Registry) -> None:
    call("promote", "--deployment", "demo", "--version", "1")
    assert "ann promoted version 1" in refused(
        "promote", "--deployment", "demo", "--version", "2", "--against", "7"
    )


def test_verify_reports_and_repairs(home: Registry) -> None:
    call("promote", "--deployment", "demo", "--version", "1")
    assert call("verify") == {"deployments": {"demo": []}}
    home.client.delete_registered_model_alias("slc-demo", "champion")
    assert "verify --repair" in refused("verify", "--deployment", "demo")
    shown = CliRunner().invoke(app, ["status"], catch_exceptions=False)
    assert "points to nothing" in shown.stdout.replace("\n  ", " ")
    assert "docs/runbooks.md#restored-backup" in shown.stdout
    assert call("verify", "--repair")["deployments"]["demo"][0]["code"] == "repaired"
    assert call("verify") == {"deployments": {"demo": []}}


@pytest.mark.parametrize("command", ["history", "promote", "rollback", "verify"])
@pytest.mark.parametrize("name", ["../etc", "a b", "unknown"])
def test_an_unknown_deployment_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, name: str
) -> None:
    monkeypatch.setenv("SLC_OPS_HOME", str(tmp_path))
    message = refused(command, "--deployment", name)
    assert "\n" not in message
    assert name in message


def test_an_unknown_version_is_named(home: Registry) -> None:
    assert "no version 99" in refused("promote", "--deployment", "demo", "--version", "99")
    assert "never was champion" in refused("rollback", "--deployment", "demo", "--to", "1")


@pytest.mark.slow
def test_promote_works_after_retire(home: Registry) -> None:
    call("promote", "--deployment", "demo", "--version", "1")
    asked = ["--deployment", "demo", "--reason", "a new backbone", "--actor", "ann"]
    assert "champion 2 of demo" in refused("retire", *asked, "--against", "2")
    answer = call("retire", *asked, "--against", "1")
    assert (answer["champion"], answer["change"]["from_version"]) == (None, 1)
    assert call("retire", *asked) == answer
    shown = CliRunner().invoke(app, ["status"], catch_exceptions=False).output
    assert "no champion, the frozen model serves" in " ".join(shown.split())
    assert "retirement 1 → none" in CliRunner().invoke(app, ["history", "--deployment", "demo"]).output
    assert call("promote", "--deployment", "demo", "--version", "2")["champion"]["version"] == 2


def test_retire_needs_a_champion_and_a_reason(home: Registry) -> None:
    assert "no champion to retire" in refused("retire", "--deployment", "demo", "--reason", "why")
    assert CliRunner().invoke(app, ["retire", "--deployment", "demo"]).exit_code == 2


def test_verify_chain_names_the_row_and_needs_no_mlflow(
    home: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("promote", "--deployment", "demo", "--version", "1")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")  # a closed port
    (found,) = call("verify", "--chain")["deployments"].values()
    assert (found["rows"], found["problems"]) == (4, [])
    with home.ledger.database.writing() as connection:
        connection.exec_driver_sql("DROP TRIGGER slc_move_no_update")
        connection.exec_driver_sql("UPDATE slc_move SET actor = 'bob'")
    result = CliRunner().invoke(app, ["verify", "--chain", "--deployment", "demo", "--head", found["head"]])
    assert "row 4 (move 1 of the champion) was changed" in result.output
    assert "compare it with its backup" in str(result.exception)
