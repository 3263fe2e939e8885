"""Airflow tasks and DAG builders for refreshes; import them in your own DAGs.

All DAGs of the deployments file in a file of two lines::

    from slc_ops.airflow import dags

    globals().update(dags())

Add an entry to the deployments file to get a second deployment. Your own DAG may use single tasks
(:mod:`slc_ops.airflow.tasks`), all tasks of a refresh (:func:`refresh_tasks`) or our assets::

    from slc_ops.airflow import champion_asset

    with DAG("warm_caches", schedule=champion_asset("algebra")): ...

Names are imported lazily, because Airflow loads the plugins of this package in every process.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from slc_ops.base.errors import SettingsError

if TYPE_CHECKING:
    from slc_ops.airflow.assets import champion_asset, window_asset
    from slc_ops.airflow.backfill import backfill_dag, replay_dag
    from slc_ops.airflow.champion import promote_dag, rollback_dag
    from slc_ops.airflow.controls import control_dag
    from slc_ops.airflow.dag_file import dags, refuse_broken_deployments
    from slc_ops.airflow.forms import usable_deployments
    from slc_ops.airflow.messages import on_control_failure
    from slc_ops.airflow.refresh import refresh_tasks, weekly_refresh, weekly_refreshes
    from slc_ops.airflow.tasks import backtest, decide, detectability, extract, fit, publish, validate

__all__ = [
    "backfill_dag",
    "backtest",
    "champion_asset",
    "control_dag",
    "dags",
    "decide",
    "detectability",
    "extract",
    "fit",
    "on_control_failure",
    "promote_dag",
    "publish",
    "refresh_tasks",
    "refuse_broken_deployments",
    "replay_dag",
    "retire_dag",
    "rollback_dag",
    "usable_deployments",
    "validate",
    "weekly_refresh",
    "weekly_refreshes",
    "window_asset",
]

_MODULES = (
    "assets", "backfill", "champion", "controls", "dag_file", "forms", "messages", "refresh", "tasks",
)  # fmt: skip
OLDEST = (3, 3)
"""The oldest Airflow with retry policies for tasks."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_airflow()
    for module in _MODULES:
        found = getattr(import_module(f"{__name__}.{module}"), name, None)
        if found is not None:
            globals()[name] = found
            return found
    raise AttributeError(f"no module of {__name__!r} defines {name!r}")


def require_airflow() -> None:
    """Raise `SettingsError` if Airflow is missing or too old."""
    found = _installed("apache-airflow-core") or _installed("apache-airflow")
    if found is None:
        raise SettingsError("there is no Airflow here; run: pip install 'slc-ops[airflow]'")
    if tuple(int(part) for part in found.split(".")[:2]) < OLDEST:
        raise SettingsError(
            f"slc_ops needs Airflow {OLDEST[0]}.{OLDEST[1]} or newer, this is {found}; upgrade Airflow first"
        )


def _installed(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
