"""Access control: permissions for a deployment equal those for its DAG."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.hitl import HITLDetail
from airflow.models.taskinstance import TaskInstance
from fastapi import Depends
from sqlalchemy import func, select

from slc_ops.airflow.users import users_by_configuration

PREFIX = "slc_weekly_refresh__"


@dataclass(frozen=True)
class Schedule:
    """The state of a deployment's DAG in Airflow."""

    dag_id: str
    paused: bool = False
    run_id: str | None = None
    state: str | None = None
    waiting_run: str | None = None
    """The run whose gate awaits an approval."""
    asked: tuple[str, ...] = ()
    """The approvers; empty means everybody who may edit the run."""
    strangers: tuple[str, ...] = ()
    """Approvers without an account in this Airflow, if that is known."""
    asked_at: datetime | None = None


def readable(user: GetUserDep, session: SessionDep) -> dict[str, Schedule]:
    """Return the deployments whose DAG the user may read, by name; those without a DAG are omitted."""
    allowed = get_auth_manager().get_authorized_dag_ids(user=user, session=session)
    dags = sorted(dag for dag in allowed if dag.startswith(PREFIX))
    paused = dict(
        session.execute(select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.in_(dags))).all()
    )
    newest = select(func.max(DagRun.id)).where(DagRun.dag_id.in_(dags)).group_by(DagRun.dag_id)
    did = select(TaskInstance.dag_id, TaskInstance.run_id).join(
        DagRun, (DagRun.dag_id == TaskInstance.dag_id) & (DagRun.run_id == TaskInstance.run_id)
    )
    done = did.where(DagRun.id.in_(newest), TaskInstance.state == "success").distinct()
    worked = {(dag, run) for dag, run in session.execute(done)}
    runs = {
        dag: (run, _state(dag, run, str(getattr(state, "value", state)), worked))
        for dag, run, state in session.execute(
            select(DagRun.dag_id, DagRun.run_id, DagRun.state).where(DagRun.id.in_(newest))
        )
    }
    questions = (
        select(TaskInstance.dag_id, TaskInstance.run_id, HITLDetail.assignees, HITLDetail.created_at)
        .join(TaskInstance, TaskInstance.id == HITLDetail.ti_id)
        .where(TaskInstance.dag_id.in_(dags), TaskInstance.state == "awaiting_input")
    )
    asked = {
        dag: (run, _names(assignees), _strangers(assignees), at)
        for dag, run, assignees, at in session.execute(questions)
    }
    found = {}
    for dag in dags:
        run, state = runs.get(dag, (None, None))
        found[dag.removeprefix(PREFIX)] = Schedule(
            dag, bool(paused.get(dag)), run, state, *asked.get(dag, (None, (), (), None))
        )
    return found


def may_read(user: GetUserDep) -> Callable[[str], bool]:
    """Return a check of read permission for a deployment's DAG, even if the DAG does not exist."""

    def allowed(name: str) -> bool:
        details = DagDetails(id=f"{PREFIX}{name}")
        return bool(get_auth_manager().is_authorized_dag(method="GET", user=user, details=details))

    return allowed


def _state(dag: str, run: str, state: str, worked: set[Any]) -> str:
    """Return the run's state; a successful run with no successful task is "skipped"."""
    return "skipped" if state == "success" and (dag, run) not in worked else state


def _names(assignees: Any) -> tuple[str, ...]:
    return tuple(str(user.get("name") or user.get("id")) for user in assignees or [])


def _strangers(assignees: Any) -> tuple[str, ...]:
    users = users_by_configuration(default=True)
    return tuple(
        str(user.get("id")) for user in assignees or [] if users is not None and user.get("id") not in users
    )


Readable = Annotated[dict[str, Schedule], Depends(readable)]
MayRead = Annotated[Callable[[str], bool], Depends(may_read)]
