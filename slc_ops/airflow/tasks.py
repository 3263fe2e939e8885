"""The steps of a refresh as Airflow tasks, for the DAG of a deployment and for your own DAGs.

Each task calls one function of :mod:`slc_ops.refresh.pipeline` and returns a short reference, never data::

    from slc_ops.airflow import extract, fit, validate

    with DAG("my_refresh", ...):
        refresh = validate("algebra", extract("algebra"))
        fit.partial(deployment="algebra", refresh=refresh).expand(fold=[0, 1, 2, 3])
"""

from typing import Any

from airflow.sdk import get_current_context, task
from airflow.sdk.exceptions import AirflowSkipException

from slc_ops.airflow.assets import both, tell_of, window_asset
from slc_ops.airflow.messages import notify
from slc_ops.airflow.runs import is_backfill, planned, reference, run_due, run_window
from slc_ops.refresh import pipeline
from slc_ops.refresh.plan import Plan, read_plan
from slc_ops.refresh.window_rules import check_labels_due
from slc_ops.settings.environment import Installation


@task
def extract(deployment: str) -> str:
    """Pull the run's window and the history that its backtest needs."""
    installation = Installation.from_environment()
    settings = installation.deployment(deployment)
    window = run_window(settings)
    # Not the DAG's end_date: it would also forbid a manual run for the last window, whose logical
    # date is later.
    if settings.ends_at is not None and window.end > settings.ends_at:
        raise AirflowSkipException(f"{deployment} ended on {settings.end}; {window} lies after it")
    pipeline.check_window(installation, deployment, window, hint="slc-ops refresh --off-grid")
    check_labels_due(window, settings.label_lag, run_due(), hint="slc-ops refresh --force")
    pipeline.extract(installation, deployment, window)
    return str(window)


@task
def validate(deployment: str, window: str) -> str:
    """Validate every window that needs it, and return the reference of the refresh."""
    installation = Installation.from_environment()
    plan = pipeline.validate(
        installation, deployment, installation.deployment(deployment).cadence.parse(window)
    )
    tell_of(both(window_asset, deployment), window)
    if not is_backfill():
        _tell_backbone(installation, deployment, read_plan(plan))
    return reference(plan)


def _tell_backbone(installation: Installation, deployment: str, plan: Plan) -> None:
    """Retire or keep a champion of another backbone before any comparison with it, and notify."""
    if (change := pipeline.note_backbone(installation, plan)) is None:
        return
    for event in ("new_backbone", *(["retired"] if change.retired else [])):
        notify(event, deployment, change.sentence, plan.window)


@task(map_index_template="{{ fold_window | default(task.op_kwargs['fold']) }}")
def fit(deployment: str, refresh: str, fold: int) -> str:
    """Fit every method on one fold and score it on the strictly later window.

    Fold 0 is the newest; a fold beyond the history is a no-op.
    """
    plan = planned(Installation.from_environment(), deployment, refresh)
    folds = pipeline.folds_of(plan).folds[::-1]
    if fold < len(folds):
        get_current_context()["fold_window"] = str(folds[fold].window)
        pipeline.fit(plan, folds[fold])
    return refresh


@task
def backtest(deployment: str, refresh: str) -> str:
    """Compare the methods and the champion on the rows of the folds."""
    installation = Installation.from_environment()
    pipeline.backtest(installation, planned(installation, deployment, refresh))
    return refresh


@task
def detectability(deployment: str, refresh: str) -> str:
    """Compute the drift that these data can detect."""
    pipeline.detectability(planned(Installation.from_environment(), deployment, refresh))
    return refresh


@task
def decide(deployment: str, refresh: str) -> dict[str, Any]:
    """Choose the method from the series of windows, check its new parameters, return the verdict."""
    plan = planned(Installation.from_environment(), deployment, refresh)
    verdict = pipeline.decide(plan)
    if verdict["verdict"] == "reject":
        notify("reject", deployment, verdict["sentence"], plan.window)
    return {key: verdict[key] for key in ("verdict", "method", "sentence")}


@task
def publish(deployment: str, refresh: str) -> int | None:
    """Write the report and register the chosen method, fitted up to the newest window."""
    installation = Installation.from_environment()
    return pipeline.publish(installation, planned(installation, deployment, refresh))
