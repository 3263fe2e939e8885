"""Airflow tasks and DAG builders for refreshes; importable in DAGs of your own.

A second deployment is one entry of the deployments file. A DAG of your own may take single tasks
(:mod:`slc_ops.airflow.tasks`), the whole wiring (:func:`refresh_tasks`) or wait for our assets::

    from slc_ops.airflow import champion_asset

    with DAG("warm_caches", schedule=champion_asset("algebra")): ...
"""

from slc_ops.airflow.assets import champion_asset, window_asset
from slc_ops.airflow.backfill import backfill_dag
from slc_ops.airflow.champion import promote_dag, rollback_dag
from slc_ops.airflow.forms import usable_deployments
from slc_ops.airflow.refresh import refresh_tasks, weekly_refresh, weekly_refreshes
from slc_ops.airflow.tasks import backtest, decide, detectability, extract, fit, publish, validate
from slc_ops.observability.notify import on_control_failure

__all__ = [
    "backfill_dag",
    "backtest",
    "champion_asset",
    "decide",
    "detectability",
    "extract",
    "fit",
    "on_control_failure",
    "promote_dag",
    "publish",
    "refresh_tasks",
    "rollback_dag",
    "usable_deployments",
    "validate",
    "weekly_refresh",
    "weekly_refreshes",
    "window_asset",
]
