"""The weekly refresh as a DAG, one per entry of the deployments file."""

from airflow.sdk import DAG, CronDataIntervalTimetable, TaskGroup

from slc_ops.airflow.assets import window_asset
from slc_ops.airflow.forms import usable_deployments
from slc_ops.airflow.gate import gate_tasks
from slc_ops.airflow.retries import default_args
from slc_ops.airflow.tasks import backtest, decide, detectability, extract, fit, publish, validate
from slc_ops.base.methods import ladder
from slc_ops.observability.notify import on_failure
from slc_ops.settings.deployments import Deployment

DOC = """\
### Weekly refresh of `{name}`

Pulls the last complete week, validates it, fits {methods} on the {weeks} weeks before each of the last
{folds} weeks and scores them on that week, chooses on the older weeks, confirms on the newest one beside the
champion, registers the winner refitted with the newest week as `slc-{name}` in MLflow, and promotes it where
its evidence and the gate (**{gate}**) allow it.

| | |
|---|---|
| window | Monday 00:00 UTC to Monday 00:00 UTC; a run without a logical date takes the newest complete one |
| a step fails | clear it: finished steps cost nothing, the same refresh makes one version |
| validation stops | look at the task's message and the window's page; the champion stays |
| past weeks | `slc_backfill`, or `airflow backfill create`; neither moves the champion |
| by hand | `slc_promote`, `slc_rollback`, `slc_retire`, or `slc-ops` on a terminal |

Schedule on `slc://{name}/window` (a week passed validation) or `slc://{name}/champion` (the champion moved).
"""


def weekly_refresh(name: str, deployment: Deployment) -> DAG:
    """Build ``slc_weekly_refresh__<name>``."""
    with DAG(
        dag_id=f"slc_weekly_refresh__{name}",
        dag_display_name=f"Weekly refresh: {name}",
        description=f"Refreshes the logit correction of {name} every week",
        schedule=CronDataIntervalTimetable(deployment.schedule, timezone="UTC"),
        start_date=deployment.starts_at,
        catchup=False,
        max_active_runs=1,
        default_args={**default_args(deployment.owner), "on_failure_callback": on_failure(name)},
        tags=["slc", "refresh", name],
        auto_register=False,  # a DAG belongs to the file that keeps it, not to every file that builds it
        doc_md=DOC.format(
            name=name,
            methods=", ".join(ladder(deployment.methods)),
            weeks=deployment.calibration_weeks,
            folds=deployment.folds,
            gate=deployment.gate,
        ),
    ) as dag:
        refresh_tasks(name, deployment)
    return dag


def weekly_refreshes() -> tuple[dict[str, DAG], list[str]]:
    """The DAGs of all usable entries, each built apart, and why others could not be built."""
    dags: dict[str, DAG] = {}
    failures = []
    for name, deployment in usable_deployments().items():
        try:
            dags[name] = weekly_refresh(name, deployment)
        except Exception as error:  # whatever Airflow finds wrong with one DAG must not take the others down
            failures.append(f"deployments.{name}: no DAG can be built of it: {' '.join(str(error).split())}")
    return dags, failures


def refresh_tasks(name: str, deployment: Deployment) -> None:
    """Wire the steps into the current DAG, in three groups: the log, the evidence, the release."""
    with TaskGroup("log", prefix_group_id=False, tooltip="Pull the week and validate its rows"):
        refresh = validate.override(outlets=[window_asset(name)])(name, extract(name))
    with TaskGroup("evidence", prefix_group_id=False, tooltip="Fit, score on later weeks, decide"):
        folds = list(range(max(2, deployment.folds)))  # one fold alone brings a hold-out to choose on
        fits = fit.partial(deployment=name, refresh=refresh).expand(fold=folds)
        compared, seen = backtest(name, refresh), detectability(name, refresh)
        verdict = decide(name, refresh)
        fits >> compared
        [compared, seen] >> verdict
    with TaskGroup("release", prefix_group_id=False, tooltip="Register, ask where needed, promote"):
        published = publish(name, refresh)
        verdict >> published >> gate_tasks(name, deployment, refresh)
