"""The gate's tasks: their order per kind of gate, and an approval without an answer."""

from datetime import timedelta
from pathlib import Path

import pytest
from airflow.providers.standard.exceptions import HITLTriggerEventError
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowSkipException

from slc_ops.airflow import champion_asset, refresh_tasks, weekly_refresh, window_asset
from slc_ops.airflow.gate import Approval, approver
from tests.airflow.conftest import configure


@pytest.fixture(autouse=True)
def _deployments_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A DAG needs nothing else."""
    monkeypatch.setenv("SLC_OPS_DEPLOYMENTS", str(tmp_path / "deployments.yaml"))


def ask() -> Approval:
    return Approval(
        task_id="gate", deployment="school", refresh=None, subject="?", response_timeout=timedelta(hours=72)
    )


def test_an_unanswered_approval_holds_without_failing() -> None:
    with pytest.raises(AirflowSkipException, match="held: nobody answered within 3 days"):
        ask().process_trigger_event_error({"error_type": "timeout", "error": "too late"})


def test_other_errors_of_the_approval_fail_the_task() -> None:
    with pytest.raises(HITLTriggerEventError):
        ask().process_trigger_event_error({"error_type": "validation", "error": "broken"})


def test_the_approver_is_recorded() -> None:
    assert approver(None) is None
    assert approver({"responded_by_user": {"id": "7", "name": "ann"}}) == "ann (Airflow approval)"
    assert approver({"responded_by_user": {"id": "7", "name": None}}) == "7 (Airflow approval)"


@pytest.mark.parametrize(
    ("gate", "before"), [("auto", {"renew"}), ("never", {"publish"}), ("manual", {"propose"})]
)
def test_every_gate_runs_between_publish_and_promote(gate: str, before: set[str]) -> None:
    dag = weekly_refresh("school", configure(gate=gate, approval_hours=5))

    assert dag.get_task("gate").upstream_task_ids >= before
    assert "gate" in dag.get_task("promote").upstream_task_ids
    assert isinstance(dag.get_task("gate"), Approval) is (gate == "manual")


def test_only_the_approvers_of_the_deployment_are_assigned() -> None:
    asked = weekly_refresh("school", configure(gate="manual", approvers=["ann", "7"])).get_task("gate")
    assert asked.assigned_users == [{"id": "ann", "name": "ann"}, {"id": "7", "name": "7"}]
    everybody = weekly_refresh("school", configure(gate="manual")).get_task("gate")
    assert not everybody.assigned_users


def test_a_manual_gate_has_no_default_answer_and_a_timeout() -> None:
    gate = weekly_refresh("school", configure(gate="manual", approval_hours=5)).get_task("gate")

    assert gate.defaults is None
    assert gate.response_timeout == timedelta(hours=5)


def test_another_dag_can_reuse_the_steps_and_wait_for_the_assets() -> None:
    deployment = configure()
    with DAG("mine", schedule=[window_asset("school"), champion_asset("school")]) as mine:
        refresh_tasks("school", deployment)

    steps = ("extract", "validate", "fit", "backtest", "detectability", "decide", "publish")
    assert {*steps, "renew", "gate", "promote"} == set(mine.task_ids)
    for task, asset in (("validate", "slc://school/window"), ("promote", "slc://school/champion")):
        assert [each.uri for each in mine.get_task(task).outlets] == [asset, f"{asset}/partitions"]
