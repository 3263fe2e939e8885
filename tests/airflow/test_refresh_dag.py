"""The weekly refresh through Airflow, task by task, in one process."""

import pyarrow as pa
import pytest

from slc_ops.airflow import weekly_refresh
from slc_ops.registry import Registry
from slc_ops.settings.environment import Installation
from tests.airflow.conftest import AFTER, configure
from tests.airflow.runs import run
from tests.refresh.backbones import named
from tests.refresh.school import NEWEST, change_week, of_one_class
from tests.webhook import listening

pytestmark = [pytest.mark.services, pytest.mark.usefixtures("metadata")]


def test_an_automatic_gate_promotes_a_supported_version_and_notifies(
    shared: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {uri: len(asset_events(uri)) for uri in ("slc://school/window", "slc://school/champion")}
    with listening() as (port, heard):
        monkeypatch.setenv("AIRFLOW_CONN_SLC_WEBHOOK", f"http://127.0.0.1:{port}")
        state, tasks = run(weekly_refresh("school", configure(gate="auto")), AFTER)
    (event,) = heard
    assert event["event"] == "promotion"
    assert event["sentence"].startswith("version 1 is the champion of school: ")
    assert {"report", "data docs", "all versions", "run"} <= set(event["links"])
    assert event["links"]["report"].endswith("/slc/school/versions/1/report")

    assert state == "success"
    # The champion changes at once, so there is nothing to renew.
    assert {name for name, ended in tasks.items() if ended != "success"} == {"renew"}
    assert [name for name in tasks if name.startswith("fit")] == ["fit[0]", "fit[1]"]
    champion = Registry.open(shared).champion("school")
    assert champion is not None
    assert champion.window == NEWEST
    noted = {uri: asset_events(uri)[count:] for uri, count in seen.items()}
    assert noted == {
        "slc://school/window": [{"window": str(NEWEST)}],
        "slc://school/champion": [{"version": 1, "window": str(NEWEST)}],
    }


@pytest.mark.parametrize(("gate", "held"), [("auto", "gate"), ("never", "gate"), ("manual", "propose")])
def test_repeating_a_week_gives_the_same_version_without_approval(
    shared: Installation, gate: str, held: str
) -> None:
    state, tasks = run(weekly_refresh("school", configure(gate=gate)), AFTER)

    assert state == "success"
    assert (tasks["publish"], tasks[held], tasks["promote"]) == ("success", "skipped", "skipped")
    registry = Registry.open(shared)
    assert [version.number for version in registry.ledger.versions("school")] == [1]
    assert len(registry.history("school")) == 1


def test_a_harmful_method_is_not_promoted_and_platt_eb_serves(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The items swap names in the newest week, so offsets learned before do harm."""

    def swapped(week: pa.Table) -> pa.Table:
        names = sorted(week["item_id"].unique().to_pylist())
        other = dict(zip(names, reversed(names), strict=True))
        turned = pa.array([other[name] for name in week["item_id"].to_pylist()], week["item_id"].type)
        return week.set_column(week.schema.get_field_index("item_id"), "item_id", turned)

    change_week(installation, NEWEST, swapped)
    with listening() as (port, heard):
        monkeypatch.setenv("AIRFLOW_CONN_SLC_WEBHOOK", f"http://127.0.0.1:{port}")
        state, tasks = run(weekly_refresh("school", configure()), AFTER)

    assert (state, tasks["publish"], tasks["promote"]) == ("success", "success", "success")
    (event,) = heard
    assert (event["event"], event["deployment"], event["task_id"]) == ("promotion", "school", "promote")
    assert event["window"] == str(NEWEST)
    champion = Registry.open(installation).champion("school")
    assert champion is not None
    assert champion.method == "platt_eb"


def test_a_stopped_week_fails_without_retries_notifies_and_keeps_the_champion(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_week(installation, NEWEST, of_one_class)
    box = {"file": str(installation.home / "box"), "text": "{{ slc_event.event }} {{ slc_event.deployment }}"}
    notify = {"webhook": "team", "notifiers": [{"path": "tests.airflow.mailbox.Mailbox", "arguments": box}]}
    dag = weekly_refresh("school", configure(notify=notify))

    with listening() as (port, heard):
        monkeypatch.setenv("AIRFLOW_CONN_TEAM", f"http://127.0.0.1:{port}")
        state, tasks = run(dag, AFTER, retries=2)  # no retries, although Airflow is set to three

    assert state == "failed"
    assert (tasks["extract"], tasks["validate"], tasks["publish"]) == ("success", "failed", "upstream_failed")
    (event,) = heard
    assert (event["event"], event["task_id"]) == ("stop", "validate")
    assert event["sentence"].startswith("ValidationStopped: ")
    assert event["window"] == str(NEWEST)
    assert set(event["links"]) == {"data docs", "all versions", "run", "task"}
    assert event["links"]["data docs"].endswith(f"/slc/school/windows/{NEWEST.key}/validation")
    assert event["links"]["task"].endswith("/tasks/validate")
    assert (installation.home / "box").read_text() == "stop school\n"
    assert Registry.open(installation).champion("school") is None


def test_a_week_after_the_end_of_the_deployment_is_skipped(installation: Installation) -> None:
    dag = weekly_refresh("school", configure(end="2026-02-16"))

    state, tasks = run(dag, AFTER)

    assert state == "success"
    assert set(tasks.values()) == {"skipped"}
    assert not installation.windows("school").exists()


def asset_events(uri: str) -> list[dict[str, object]]:
    """The events that Airflow recorded for an asset."""
    from airflow.models.asset import AssetEvent, AssetModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        query = select(AssetEvent.extra).join(AssetModel, AssetModel.id == AssetEvent.asset_id)
        query = query.where(AssetModel.uri == uri).order_by(AssetEvent.id)
        return [dict(extra) for extra in session.scalars(query)]


def test_a_new_backbone_retires_the_champion_and_notifies_before_any_comparison(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = Registry.open(installation)
    run(weekly_refresh("school", configure(gate="auto")), "2026-02-16T00:00:01+00:00")
    waiting = registry.champion("school") or registry.challenger("school")
    assert waiting is not None
    registry.promote("school", waiting.number, actor="ann", reason="its turn", override="for the test")
    change_week(installation, NEWEST, named("gru-8"))
    with listening() as (port, heard):
        monkeypatch.setenv("AIRFLOW_CONN_SLC_WEBHOOK", f"http://127.0.0.1:{port}")
        _, tasks = run(weekly_refresh("school", configure(gate="auto")), AFTER)
    assert tasks["validate"] == "success"
    assert [event["event"] for event in heard][:2] == ["new_backbone", "retired"]
    assert "new backbone gru-8" in heard[0]["sentence"]
    assert "run" in heard[0]["links"]
    assert "retirement" in [change.kind for change in registry.history("school")]
