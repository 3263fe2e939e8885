"""The DAGs with a form: backfill, promotion, rollback, retirement."""

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from slc_ops.airflow import backfill_dag, promote_dag, replay_dag, retire_dag, rollback_dag
from slc_ops.airflow.controls import control_dag
from slc_ops.base.window import Window
from slc_ops.cli import app
from slc_ops.refresh import pipeline
from slc_ops.registry import Registry
from slc_ops.settings.environment import Installation
from tests.airflow.conftest import configure
from tests.airflow.runs import run
from tests.airflow.test_refresh_dag import asset_events
from tests.webhook import listening

pytestmark = [pytest.mark.services, pytest.mark.usefixtures("metadata")]

FORM: dict[str, Any] = {"deployment": "school", "from": "2026-02-02", "to": "2026-02-23"}


@pytest.fixture(scope="module")
def backfilled(shared: Installation) -> tuple[str, dict[str, str]]:
    """Three weeks, backfilled through the form."""
    return run(backfill_dag(), **FORM)


def test_a_dry_run_reports_its_plan_and_changes_nothing(
    installation: Installation, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        state, tasks = run(backfill_dag(), **FORM, dry_run=True)

    assert (state, tasks["refresh"], tasks["summary"]) == ("success", "skipped", "success")
    assert "3 of 3 windows to refresh" in caplog.text
    assert "dry run: nothing is done" in caplog.text
    assert not installation.windows("school").exists()
    assert Registry.open(installation).ledger.versions("school") == []


def test_a_backfill_gives_one_version_per_week_in_order_and_no_champion(
    shared: Installation, backfilled: tuple[str, dict[str, str]]
) -> None:
    state, tasks = backfilled

    assert state == "success"
    assert [tasks[f"refresh[{k}]"] for k in range(3)] == ["success"] * 3
    registry = Registry.open(shared)
    versions = registry.ledger.versions("school")
    assert [(v.number, v.window.key) for v in versions] == [
        (1, "2026-02-02"),
        (2, "2026-02-09"),
        (3, "2026-02-16"),
    ]
    assert registry.history("school") == []


def test_later_weeks_wait_for_a_retried_week(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow keeps only the order of the map indices, and a retry breaks it."""
    configure(methods=["platt"])
    failed = []
    extract = pipeline.extract

    def stumbling(installation: Installation, name: str, window: Window) -> list[Window]:
        if not failed:
            failed.append(window.key)
            raise OSError("the file system is away for a while")
        return extract(installation, name, window)

    monkeypatch.setattr(pipeline, "extract", stumbling)

    state, tasks = run(backfill_dag(), **{**FORM, "from": "2026-02-09"}, retries=1)

    assert (state, tasks["refresh[0]"], tasks["refresh[1]"]) == ("success", "success", "success")
    assert failed == ["2026-02-09"]
    versions = Registry.open(installation).ledger.versions("school")
    assert [v.window.key for v in versions] == ["2026-02-09", "2026-02-16"]


@pytest.mark.usefixtures("backfilled")
def test_finished_weeks_are_skipped(shared: Installation) -> None:
    state, tasks = run(backfill_dag(), **FORM)

    assert (state, tasks["refresh"]) == ("success", "skipped")
    assert len(Registry.open(shared).ledger.versions("school")) == 3


@pytest.mark.usefixtures("backfilled")
def test_a_second_backfill_with_promote_moves_the_champion_and_records_the_person(
    shared: Installation,
) -> None:
    state, _ = run(backfill_dag(), **{**FORM, "from": "2026-02-16"}, again=True, promote=True)

    assert state == "success"
    registry = Registry.open(shared)
    assert len(registry.ledger.versions("school")) == 3
    assert registry.history("school")[-1].actor == "dag_test (Airflow)"


@pytest.mark.parametrize(
    "wrong",
    [
        {"from": "2026-02-23", "to": "2026-02-02"},
        {"to": "2099-01-05"},
        {"from": "2026-02-03"},
        {"form": "2026-02-02"},
        {"promote_all": True},
    ],
)
def test_the_first_task_refuses_a_contradictory_form(
    installation: Installation, wrong: dict[str, Any]
) -> None:
    state, tasks = run(backfill_dag(), **{**FORM, **wrong})

    assert (state, tasks["plan"]) == ("failed", "failed")
    assert not installation.windows("school").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"deployment": "nosuch"},
        {"deployment": "../../etc"},
        {"from": "yesterday"},
        {"methods": ["magic"]},
        {"promote": "yes"},
    ],
)
def test_a_form_with_invalid_values_is_refused_before_it_runs(
    installation: Installation, wrong: dict[str, Any]
) -> None:
    with pytest.raises(Exception, match="Invalid input for param"):
        run(backfill_dag(), **{**FORM, **wrong})


@pytest.mark.usefixtures("backfilled")
def test_a_replay_writes_its_report_and_registers_nothing(installation: Installation) -> None:
    state, tasks = run(replay_dag(), **FORM)

    assert (state, tasks["replay"]) == ("success", "success")
    page = installation.replays("school") / "2026-02-02_2026-02-23" / "replay.html"
    assert "replay of 2026-02-02/2026-02-23" in page.read_text()
    assert not installation.windows("school").exists()
    assert Registry.open(installation).ledger.versions("school") == []


@pytest.mark.usefixtures("backfilled")
def test_manual_promotion_and_rollback_are_recorded_with_the_person_and_notified(
    shared: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry.open(shared)
    back_to_the_first(registry)
    with listening() as (port, reported):
        monkeypatch.setenv("AIRFLOW_CONN_SLC_WEBHOOK", f"http://127.0.0.1:{port}")
        promoted, _ = run(promote_dag(), deployment="school", version=3, reason="the pilot class liked it")
        again, _ = run(promote_dag(), deployment="school", version=3, reason="once more")
    monkeypatch.delenv("AIRFLOW_CONN_SLC_WEBHOOK")
    refused, _ = run(promote_dag(), deployment="school", version=2, reason="an older week")
    unknown, _ = run(promote_dag(), deployment="school", version=77, reason="a typing error")
    back_to_the_first(registry)
    with listening() as (port, heard):
        monkeypatch.setenv("AIRFLOW_CONN_SLC_WEBHOOK", f"http://127.0.0.1:{port}")
        rolled, _ = run(rollback_dag(), deployment="school", to=3, reason="it was better")

    assert (promoted, again) == ("success", "success")
    assert (refused, unknown, rolled) == ("failed", "failed", "success")
    (promotion,) = reported
    assert promotion["event"] == "promotion"
    assert promotion["sentence"].endswith("version 3 is the champion of school (the pilot class liked it)")
    assert set(promotion["links"]) == {"report", "data docs", "all versions", "run"}
    last = registry.history("school")[-1]
    assert (last.kind, last.to_version, last.actor) == ("rollback", 3, "dag_test (Airflow)")
    (event,) = heard
    assert event["event"] == "rollback"
    assert "it was better" in event["sentence"]
    assert event["links"]["report"].endswith("/slc/school/versions/3/report")
    assert asset_events("slc://school/champion")[-1]["version"] == 3


def back_to_the_first(registry: Registry) -> None:
    """Make version 1 the champion, whatever the current one is."""
    ledger = registry.ledger
    ledger.advance(ledger.head("school"), ledger.version("school", 1), kind="rollback", actor="a", reason="b")


@pytest.mark.usefixtures("backfilled")
def test_a_manual_retirement_is_recorded_with_the_person_and_notified(
    shared: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry.open(shared)
    ledger = registry.ledger
    ledger.advance(
        ledger.head("school"), ledger.version("school", 3), kind="promotion", actor="ann", reason="its turn"
    )
    with listening() as (port, heard):
        monkeypatch.setenv("AIRFLOW_CONN_SLC_WEBHOOK", f"http://127.0.0.1:{port}")
        first, _ = run(retire_dag(), deployment="school", reason="a new backbone")
        again, _ = run(retire_dag(), deployment="school", reason="once more")

    assert (first, again) == ("success", "success")
    last = registry.history("school")[-1]
    assert (last.kind, last.to_version, last.actor) == ("retirement", None, "dag_test (Airflow)")
    (event,) = heard
    assert event["event"] == "retired"
    assert "a new backbone" in event["sentence"]
    assert "the frozen model serves school" in event["sentence"]
    assert set(event["links"]) == {"data docs", "all versions", "run"}
    assert asset_events("slc://school/champion")[-1]["version"] is None


@pytest.mark.usefixtures("backfilled")
def test_changes_by_command_line_are_notified_with_links_to_airflow(
    shared: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Registry.open(shared).ledger
    for number in (1, 3):
        version = ledger.version("school", number)
        ledger.advance(ledger.head("school"), version, kind="promotion", actor="ann", reason="its turn")
    with listening() as (port, heard):
        monkeypatch.setenv("AIRFLOW_CONN_SLC_WEBHOOK", f"http://:s3cret@127.0.0.1:{port}")
        asked = ["rollback", "--deployment", "school", "--actor", "bob", "--reason", "the alarm at night"]
        terminal = [str(Path(sys.executable).parent / "slc-ops"), *asked, "--json", "-"]
        monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://air.example")
        reported = subprocess.run(terminal, capture_output=True, check=True)
        for command in (["promote", "--version", "3"], ["retire"]):
            hand = [*command, "--deployment", "school", "--actor", "bob", "--reason", "by hand"]
            assert CliRunner().invoke(app, hand, catch_exceptions=False).exit_code == 0
        monkeypatch.delenv("AIRFLOW_HOME")
        untold = CliRunner().invoke(app, [*asked, "--to", "3"], catch_exceptions=False)

    assert json.loads(reported.stdout)["champion"]["version"] == 1, (
        "Airflow's log must not get into the answer"
    )
    assert untold.exit_code == 0
    event, promotion, retirement = heard
    assert (promotion["event"], retirement["event"]) == ("promotion", "retired")
    assert promotion["sentence"].startswith("bob promoted by hand: version 3 is the champion of school")
    for each, links in ((event, {"report"}), (promotion, {"report"}), (retirement, set())):
        assert set(each["links"]) == {"data docs", "all versions"} | links
        assert all(link.startswith("https://air.example/slc/school") for link in each["links"].values())
    assert (event["event"], event["window"]) == ("rollback", "2026-02-02/2026-02-09")
    assert event["sentence"].startswith("bob rolled back: version 1 is the champion of school")
    assert event["token"] == "Bearer s3cret"


@pytest.mark.parametrize("data", ["../../etc", "/etc/passwd", "no-such-folder"])
def test_a_failed_control_is_notified_and_its_form_cannot_read_other_files(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, data: str
) -> None:
    dag = control_dag("flight-delay")

    with listening() as (port, heard):
        monkeypatch.setenv("AIRFLOW_CONN_SLC_WEBHOOK", f"http://127.0.0.1:{port}")
        state, tasks = run(dag, data=data)

    assert (state, tasks["prepare"]) == ("failed", "failed")
    (event,) = heard
    assert (event["event"], event["deployment"], event["task_id"]) == ("control", "flight-delay", "prepare")
    assert "not a file or folder below" in event["sentence"]
    assert event["links"]["task"].startswith(event["links"]["run"])
