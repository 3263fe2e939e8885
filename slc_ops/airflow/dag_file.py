"""Entry point for DAG files: all DAGs of an installation, by id."""

import logging
from collections.abc import Callable

from airflow.sdk import DAG

from slc_ops.airflow.backfill import backfill_dag, replay_dag
from slc_ops.airflow.champion import promote_dag, retire_dag, rollback_dag
from slc_ops.airflow.controls import CONTROLS, control_dag
from slc_ops.airflow.refresh import weekly_refreshes
from slc_ops.airflow.upkeep import clean_dag, has_retention, late_dag
from slc_ops.base.errors import SettingsError
from slc_ops.base.extras import require
from slc_ops.settings.deployments_file import read_deployments
from slc_ops.settings.environment import Installation

log = logging.getLogger(__name__)


def dags(*parts: str) -> dict[str, DAG]:
    """Return the DAGs for a DAG file: ``globals().update(dags())``.

    Args:
        parts: ``"refreshes"``, ``"operations"`` or ``"controls"``; default the refreshes of the deployments
            file and the operations started from a form. With one file per part, an unreadable deployments
            file does not disable rollbacks.

    Raises:
        SettingsError: An extra is missing, or the deployments file (or folder) is unreadable. An invalid
            entry only omits its own DAG; it appears in the log, on the page SLC, and as an import error in a
            file that calls :func:`refuse_broken_deployments`.
    """
    unknown = sorted(set(parts) - set(PARTS))
    if unknown:
        raise SettingsError(f"dags() accepts the parts {', '.join(PARTS)}; found {', '.join(unknown)}")
    require("a DAG file of slc_ops", "mlflow", "quality", "report")
    built = [dag for part in parts or ("refreshes", "operations") for dag in PARTS[part]()]
    return {dag.dag_id: dag for dag in built}


def refuse_broken_deployments() -> None:
    """Raise one import error that names every invalid entry; call it in a file without DAGs.

    In a file with DAGs the error would disable all of them. An unreadable deployments file is reported by the
    file of the refreshes.
    """
    try:
        _, broken = read_deployments(Installation.from_environment().deployments_file)
    except SettingsError:
        return
    if complaints := [*map(str, broken), *weekly_refreshes()[1]]:
        raise SettingsError("; ".join(complaints))


def _refreshes() -> list[DAG]:
    good, broken = read_deployments(Installation.from_environment().deployments_file)
    built, failures = weekly_refreshes()
    for complaint in [*map(str, broken), *failures]:
        log.warning("%s", complaint)
    watched = any(each.verdict_due is not None for each in good.values())
    cleaned = any(map(has_retention, good.values()))
    return [*built.values(), *([late_dag()] if watched else []), *([clean_dag()] if cleaned else [])]


PARTS: dict[str, Callable[[], list[DAG]]] = {
    "refreshes": _refreshes,
    "operations": lambda: [backfill_dag(), replay_dag(), promote_dag(), rollback_dag(), retire_dag()],
    "controls": lambda: [control_dag(control) for control in CONTROLS],
}
