"""What a DAG file asks for: all DAGs of an installation, by their ids."""

import logging
from collections.abc import Callable

from airflow.sdk import DAG

from slc_ops.airflow.backfill import backfill_dag, replay_dag
from slc_ops.airflow.champion import promote_dag, retire_dag, rollback_dag
from slc_ops.airflow.clean import clean_dag, says_what_it_keeps
from slc_ops.airflow.controls import CONTROLS, control_dag
from slc_ops.airflow.forms import usable_deployments
from slc_ops.airflow.late import late_dag
from slc_ops.airflow.refresh import weekly_refreshes
from slc_ops.base.errors import SettingsError
from slc_ops.base.extras import require
from slc_ops.settings.deployments import Installation, read_deployments

log = logging.getLogger(__name__)


def dags(*parts: str) -> dict[str, DAG]:
    """The DAGs of a DAG file: ``globals().update(dags())``.

    Without ``parts`` these are the weekly refreshes of the deployments file and the operations that people
    start from a form. ``"refreshes"``, ``"operations"`` and ``"controls"`` name a part, so that each may have
    a file of its own: then an unreadable deployments file leaves rollbacks alive.

    Missing extras and a deployments file (or folder) that cannot be read are a
    :class:`~slc_ops.base.errors.SettingsError`: one import error. A broken entry only leaves its DAG out: it
    is in the log and on the page SLC, and is an import error where :func:`refuse_broken_deployments` has a
    file of its own.
    """
    unknown = sorted(set(parts) - set(PARTS))
    if unknown:
        raise SettingsError(f"dags() knows the parts {', '.join(PARTS)}; found {', '.join(unknown)}")
    require("a DAG file of slc_ops", "mlflow", "quality", "report")
    built = [dag for part in parts or ("refreshes", "operations") for dag in PARTS[part]()]
    return {dag.dag_id: dag for dag in built}


def refuse_broken_deployments() -> None:
    """One import error that names every broken entry; the file that calls this defines no DAG.

    Raised where the DAGs are made, it would take all of them down. An unreadable file is left to the file
    that makes the refreshes.
    """
    if complaints := _complaints():
        raise SettingsError("; ".join(complaints))


def _complaints() -> list[str]:
    try:
        broken = [
            str(entry) for entry in read_deployments(Installation.from_environment().deployments_file)[1]
        ]
    except SettingsError:
        return []
    return broken + weekly_refreshes()[1]


def _refreshes() -> list[DAG]:
    _, broken = read_deployments(Installation.from_environment().deployments_file)
    built, failures = weekly_refreshes()
    for complaint in [*(str(entry) for entry in broken), *failures]:
        log.warning("%s", complaint)
    usable = usable_deployments().values()
    watched = any(each.verdict_due is not None for each in usable)
    cleaned = any(map(says_what_it_keeps, usable))
    return [*built.values(), *([late_dag()] if watched else []), *([clean_dag()] if cleaned else [])]


def _operations() -> list[DAG]:
    return [backfill_dag(), replay_dag(), promote_dag(), rollback_dag(), retire_dag()]


def _controls() -> list[DAG]:
    return [control_dag(control) for control in CONTROLS]


PARTS: dict[str, Callable[[], list[DAG]]] = {
    "refreshes": _refreshes,
    "operations": _operations,
    "controls": _controls,
}
