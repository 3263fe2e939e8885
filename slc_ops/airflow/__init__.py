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
from typing import Any

from slc_ops.base.errors import SettingsError

_PUBLIC = {
    "assets": ("champion_asset", "window_asset"),
    "backfill": ("backfill_dag", "replay_dag"),
    "champion": ("promote_dag", "retire_dag", "rollback_dag"),
    "controls": ("control_dag",),
    "dag_file": ("dags", "refuse_broken_deployments"),
    "forms": ("usable_deployments",),
    "messages": ("on_control_failure",),
    "refresh": ("refresh_tasks", "weekly_refresh", "weekly_refreshes"),
    "tasks": ("backtest", "decide", "detectability", "extract", "fit", "publish", "validate"),
}
"""Module of this package → the names that it gives."""
_MODULE_OF = {name: module for module, names in _PUBLIC.items() for name in names}
__all__ = sorted(_MODULE_OF)  # noqa: PLE0605 - one table of names
OLDEST = (3, 3)
"""The oldest Airflow with retry policies for tasks."""


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_airflow()
    globals()[name] = found = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    return found


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
