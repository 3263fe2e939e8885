"""Who may see what: the rights to a deployment are the rights to its DAG."""

from dataclasses import dataclass
from typing import Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.models.dag import DagModel
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from fastapi import Depends
from sqlalchemy import func, select

PREFIX = "slc_weekly_refresh__"


@dataclass(frozen=True)
class Schedule:
    """What Airflow knows of a deployment's DAG."""

    dag_id: str
    paused: bool = False
    run_id: str | None = None
    state: str | None = None
    waiting_run: str | None = None
    """The run whose gate waits for a person."""


def readable(user: GetUserDep, session: SessionDep) -> dict[str, Schedule]:
    """The deployments whose DAG the user may read, by name. What Airflow does not know is not shown."""
    allowed = get_auth_manager().get_authorized_dag_ids(user=user, session=session)
    dags = sorted(dag for dag in allowed if dag.startswith(PREFIX))
    paused = dict(
        _rows(session, select(DagModel.dag_id, DagModel.is_paused).where(DagModel.dag_id.in_(dags)))
    )
    newest = select(func.max(DagRun.id)).where(DagRun.dag_id.in_(dags)).group_by(DagRun.dag_id)
    runs = {
        dag: (run, str(getattr(state, "value", state)))
        for dag, run, state in _rows(
            session, select(DagRun.dag_id, DagRun.run_id, DagRun.state).where(DagRun.id.in_(newest))
        )
    }
    asking = TaskInstance.state == "awaiting_input"
    waiting = select(TaskInstance.dag_id, TaskInstance.run_id).where(TaskInstance.dag_id.in_(dags), asking)
    waits = dict(_rows(session, waiting))
    found = {}
    for dag in dags:
        run, state = runs.get(dag, (None, None))
        found[dag.removeprefix(PREFIX)] = Schedule(dag, bool(paused.get(dag)), run, state, waits.get(dag))
    return found


def _rows(session: Any, query: Any) -> list[Any]:
    return [tuple(row) for row in session.execute(query)]


Readable = Annotated[dict[str, Schedule], Depends(readable)]
