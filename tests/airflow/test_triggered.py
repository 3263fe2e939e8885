"""Assets trigger refreshes, and refreshes trigger other DAGs: producers and consumers in a real Airflow."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from slc_ops.base.window import WEEK, Window
from slc_ops.demo.run import ROOT
from slc_ops.demo.simulate import simulate
from tests.airflow.conftest import ENTRY
from tests.airflow.mailbox import listening
from tests.airflow.platform import Platform
from tests.airflow.test_end_to_end import database  # noqa: F401 - a fixture

pytestmark = [pytest.mark.services, pytest.mark.timeout(1800)]

NOW = Window.week_of(datetime.now(UTC) - WEEK)
OLDER = NOW.before(1)[0]
FREE = {**ENTRY, "start": f"{NOW.start - 7 * WEEK:%Y-%m-%d}", "end": None}
REFRESH = "slc_weekly_refresh__"

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
def heard() -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """The receiver of notifications."""
    with listening() as found:
        yield found


@pytest.fixture(scope="module")
def airflow(
    tmp_path_factory: pytest.TempPathFactory,
    database: str,  # noqa: F811 - the fixture
    heard: tuple[int, list[dict[str, Any]]],
) -> Iterator[Platform]:
    """Three deployments: one triggered by an asset, one at a time that needs the asset, one with an empty
    source.
    """
    home = tmp_path_factory.mktemp("platform")
    simulate(home / "lake" / "school", weeks=8, users=300, items=60, seed=11, start=FREE["start"])
    entries = {
        "on_event": {**FREE, "schedule": {"asset": "raw log"}},
        "both": {**FREE, "schedule": {"cron": "0 0 * * 1", "asset": "lake://raw"}, "wait_for_source": "20m"},
        "waiting": {
            **FREE,
            "source": {"kind": "lake", "path": "lake/filled"},
            "wait_for_source": "30m",
            "verdict_due": "1m",
        },
    }
    (home / "deployments.yaml").write_text(yaml.safe_dump({"deployments": entries}))
    shutil.copytree(ROOT / "dags", home / "dags", ignore=shutil.ignore_patterns("control_*", "__pycache__"))
    (home / "dags" / "others.py").write_text(OTHERS)
    platform = Platform(home, database)
    platform.variables["AIRFLOW_CONN_SLC_WEBHOOK"] = f"http://127.0.0.1:{heard[0]}"
    try:
        platform.prepare()
        platform.start()
        yield platform
    finally:
        platform.stop()


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
    airflow: Platform, heard: tuple[int, list[dict[str, Any]]], tmp_path: Path
) -> None:
    dag = f"{REFRESH}waiting"
    airflow.unpause(dag)
    (run,) = airflow.until(lambda: airflow.runs(dag, "scheduled"), "the scheduled run")
    airflow.until(lambda: airflow.tasks(dag, run).get("wait_for_source") == "deferred", "the wait", 180)

    airflow.unpause("slc_late")
    for _ in range(2):
        airflow.finished("slc_late", airflow.trigger("slc_late"))
    late = [event for event in heard[1] if event["event"] == "late"]
    assert [(event["deployment"], event["window"]) for event in late] == [("waiting", str(NOW))]

    shutil.copytree(airflow.home / "lake" / "school", tmp_path / "filled")
    (tmp_path / "filled").rename(airflow.home / "lake" / "filled")
    tasks = airflow.finished(dag, run)
    assert (tasks["wait_for_source"], tasks["publish"]) == ("success", "success")


def asset_id(airflow: Platform, name: str) -> int:
    """Airflow's id of an asset."""
    found = airflow.call("GET", "/api/v2/assets?limit=100")["assets"]
    return int(next(each["id"] for each in found if each["name"] == name))
