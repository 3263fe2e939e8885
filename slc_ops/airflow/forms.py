"""DAGs with our owner and tags, and fields that several forms share."""

from typing import Any

from airflow.sdk import DAG, Param

from slc_ops.airflow.retries import default_args
from slc_ops.base.errors import SlcError
from slc_ops.base.methods import METHODS
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.deployments_file import read_deployments
from slc_ops.settings.environment import Installation


def usable_deployments() -> dict[str, Deployment]:
    """Return the valid entries of the deployments file; :mod:`slc_ops.airflow.dag_file` reports others."""
    try:
        return read_deployments(Installation.from_environment().deployments_file)[0]
    except SlcError:
        return {}


def plain_dag(
    dag_id: str,
    title: str,
    description: str,
    doc: str,
    tag: str,
    hours: float,
    *,
    schedule: Any = None,
    on_failure: Any = None,
    **options: Any,
) -> DAG:
    """Build a DAG that is no refresh; ``hours`` limits each task, ``params`` are its form."""
    return DAG(
        dag_id=dag_id,
        dag_display_name=title,
        description=description,
        doc_md=doc,
        schedule=schedule,
        default_args={**default_args("slc-ops", hours=hours), "on_failure_callback": on_failure},
        tags=["slc", tag],
        **options,
    )


def deployment_field() -> Param:
    """Return the deployment field; it has no default, which prevents accidental submissions."""
    names: dict[str, Any] = {"enum": sorted(found)} if (found := usable_deployments()) else {}
    return Param(type="string", title="Deployment", description="An entry of the deployments file", **names)


def optional(kind: str, title: str, description: str, **limits: Any) -> Param:
    """Return a field that may stay empty."""
    return Param(None, type=["null", kind], title=title, description=description, **limits)


def past_windows_fields() -> dict[str, Param]:
    """Return the fields for past windows: deployment, dates and methods."""
    methods = list(METHODS)
    return {
        "deployment": deployment_field(),
        "from": Param(
            type="string",
            format="date",
            title="From",
            description="Day on which the first window starts (a week: its Monday)",
        ),
        "to": Param(
            type="string",
            format="date",
            title="To",
            description="Day on which the last window has ended (exclusive)",
        ),
        "methods": optional(
            "array",
            "Methods",
            "Empty: those of the deployment",
            items={"type": "string", "enum": methods},
            examples=methods,
            uniqueItems=True,
        ),
    }


def reason_field(what: str) -> Param:
    """Return the reason field; the ledger stores its value."""
    return Param(
        type="string",
        title="Reason",
        description=f"Why {what}; recorded in the ledger beside your name",
        minLength=3,
        maxLength=1000,
    )
