"""The refresh as a DAG, one per entry of the deployments file."""

from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable, TaskGroup

from slc_ops.airflow.assets import both, window_asset
from slc_ops.airflow.forms import usable_deployments
from slc_ops.airflow.gate import gate_tasks
from slc_ops.airflow.messages import on_failure
from slc_ops.airflow.retries import default_args
from slc_ops.airflow.tasks import backtest, decide, detectability, extract, fit, publish, validate
from slc_ops.airflow.timetable import WindowTimetable
from slc_ops.airflow.waiting import WaitForSource, asset_named
from slc_ops.base.methods import ladder
from slc_ops.settings.deployments import Deployment

DOC = """\
### Refresh of `{name}`, every {every}

Pulls the last complete {every}, validates it, fits {methods} on the {weeks} before each of the last
{folds} and scores them on that one. The series decides which method serves; the decided method, fitted up to
the newest {every}, is registered as `slc-{name}` in MLflow. Another method becomes champion where the gate
(**{gate}**) allows it, new parameters of the same method by `renew` (**{renew}**).

| | |
|---|---|
| window | {described}; a run without a logical date takes the newest complete one |
| a step fails | clear it: finished steps cost nothing, the same refresh makes one version |
| validation stops | read the task's message and the window's page; the champion stays |
| past windows | `slc_backfill`, or `airflow backfill create`; neither moves the champion |
| what would have been served | `slc_replay`, which registers nothing |
| manually | `slc_promote`, `slc_rollback`, `slc_retire`, or `slc-ops` on a terminal |

Schedule on `slc://{name}/window` (one passed validation) or `slc://{name}/champion` (the champion moved).
"""


def weekly_refresh(name: str, deployment: Deployment) -> DAG:
    """Build ``slc_weekly_refresh__<name>``."""
    with DAG(
        dag_id=f"slc_weekly_refresh__{name}",
        dag_display_name=f"Refresh: {name}",
        description=f"Refreshes the logit correction of {name} every {deployment.cadence.name}",
        schedule=timetable(deployment),
        start_date=deployment.starts_at,
        catchup=False,
        max_active_runs=1,
        default_args={**default_args(deployment.owner), "on_failure_callback": on_failure(name)},
        tags=["slc", "refresh", name],
        auto_register=False,  # a DAG belongs to the file that assigns it, not to each file that builds it
        doc_md=DOC.format(
            name=name,
            every=deployment.cadence.name,
            described=deployment.cadence.described,
            methods=", ".join(ladder(deployment.methods)),
            weeks=deployment.link_windows,
            folds=deployment.evidence_windows,
            gate=deployment.gate,
            renew=deployment.renew,
        ),
    ) as dag:
        refresh_tasks(name, deployment)
    return dag


def timetable(deployment: Deployment) -> Any:
    """Return the schedule of the deployment's DAG: a cron expression, an asset, or the end of a window."""
    schedule = deployment.schedule
    if schedule is not None and schedule.cron is not None:
        return CronDataIntervalTimetable(schedule.cron, timezone=deployment.window.zone)
    if schedule is not None and schedule.asset is not None:
        return [asset_named(schedule.asset)]
    return WindowTimetable(deployment.cadence, deployment.lag, deployment.refresh_every)


def waits(deployment: Deployment) -> bool:
    """Return True if a run waits first: for the source or, with a cron expression, for an asset."""
    schedule = deployment.schedule
    both = schedule is not None and None not in (schedule.cron, schedule.asset)
    return both or deployment.wait_for_source is not None


def weekly_refreshes() -> tuple[dict[str, DAG], list[str]]:
    """Build the DAGs of all valid entries independently; return them and the errors of the others."""
    dags: dict[str, DAG] = {}
    failures = []
    for name, deployment in usable_deployments().items():
        try:
            dags[name] = weekly_refresh(name, deployment)
        except Exception as error:  # an error in one DAG must not disable the others
            failures.append(f"deployments.{name}: no DAG can be built of it: {' '.join(str(error).split())}")
    return dags, failures


def refresh_tasks(name: str, deployment: Deployment) -> None:
    """Wire the steps into the current DAG, in three groups: log, evidence, release."""
    with TaskGroup("log", prefix_group_id=False, tooltip="Pull the window and validate its rows"):
        outlets = both(window_asset, name)
        named = deployment.schedule.asset if deployment.schedule else None
        inlets = [asset_named(named)] if named else []
        rows = extract.override(inlets=inlets)(name)
        if waits(deployment):
            wait = WaitForSource(
                task_id="wait_for_source",
                deployment=name,
                inlets=inlets,
                execution_timeout=None,  # it waits deferred and has its own time limit
            )
            wait >> rows
        refresh = validate.override(outlets=outlets)(name, rows)
    with TaskGroup("evidence", prefix_group_id=False, tooltip="Fit, score on later windows, decide"):
        folds = list(range(deployment.evidence_windows))
        fits = fit.partial(deployment=name, refresh=refresh).expand(fold=folds)
        compared, seen = backtest(name, refresh), detectability(name, refresh)
        verdict = decide(name, refresh)
        fits >> compared
        [compared, seen] >> verdict
    with TaskGroup("release", prefix_group_id=False, tooltip="Register, ask where needed, promote"):
        published = publish(name, refresh)
        verdict >> published >> gate_tasks(name, deployment, refresh)
