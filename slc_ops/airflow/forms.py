"""Fields that several forms share."""

from typing import Any

from airflow.sdk import Param

from slc_ops.base.errors import SlcError
from slc_ops.settings.deployments import Deployment, Places, read_deployments


def usable_deployments() -> dict[str, Deployment]:
    """The good entries of the deployments file; :mod:`slc_ops.airflow.dag_file` complains about the rest."""
    try:
        return read_deployments(Places.from_environment().deployments_file)[0]
    except SlcError:
        return {}


def deployment_field() -> Param:
    """Which deployment: a choice without a default, so that nobody moves a champion by a double click."""
    names: dict[str, Any] = {"enum": sorted(found)} if (found := usable_deployments()) else {}
    return Param(type="string", title="Deployment", description="An entry of the deployments file", **names)


def reason_field(what: str) -> Param:
    """Why: it stays in the ledger."""
    return Param(
        type="string",
        title="Reason",
        description=f"Why {what}; recorded in the ledger beside your name",
        minLength=3,
        maxLength=1000,
    )
