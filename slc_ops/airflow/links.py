"""Where people find the pages about a version: on the page SLC and in MLflow."""

from typing import Any
from urllib.parse import quote, urlsplit

from slc_ops.base.names import model_name
from slc_ops.base.window import Window
from slc_ops.settings.environment import LinkVariables


def mlflow_version(deployment: str, version: int) -> str | None:
    """The version's page in MLflow, where its address is known."""
    found = LinkVariables.read()
    address = found.mlflow_url or found.tracking_uri or ""
    if not address.startswith(("http://", "https://")):
        return None
    parts = urlsplit(address)
    host = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
    return f"{host}/#/models/{model_name(deployment)}/versions/{version}"


def version_links(deployment: str, version: int, window: Window) -> dict[str, str]:
    """Name → address of what an approver wants to open; within Airflow without its host.

    So the links work under whatever name Airflow is reached. A path before it (a proxy's) is taken from
    Airflow's own base URL.
    """
    from airflow.configuration import conf

    page = f"{urlsplit(conf.get('api', 'base_url', fallback='')).path.rstrip('/')}/slc/{quote(deployment)}"
    links = {
        "report": f"{page}/versions/{version}/report",
        "data docs": f"{page}/windows/{window.key}/validation",
        "all versions": page,
    }
    in_mlflow = mlflow_version(deployment, version)
    return links | ({} if in_mlflow is None else {"MLflow": in_mlflow})


def message_links(
    deployment: str, window: Window, context: Any, version: int | None = None
) -> dict[str, str]:
    """The same for a message that is read outside Airflow: whole addresses, and the run.

    Where Airflow's base URL is not set, paths.
    """
    from airflow.configuration import conf

    base = conf.get("api", "base_url", fallback="").rstrip("/")
    host = base.removesuffix(urlsplit(base).path) if base else ""
    found = version_links(deployment, version or 0, window)
    if version is None:
        found = {name: address for name, address in found.items() if name in ("data docs", "all versions")}
    run = context.get("dag_run")
    if run is not None:
        found["run"] = f"{urlsplit(base).path}/dags/{quote(run.dag_id)}/runs/{quote(run.run_id)}"
    return {
        name: f"{host}{address}" if address.startswith("/") else address for name, address in found.items()
    }


def as_markdown(links: dict[str, str]) -> str:
    """One line of links.

    >>> as_markdown({"report": "/slc/demo/versions/3/report"})
    '[report](/slc/demo/versions/3/report)'
    """
    return " · ".join(f"[{name}]({address})" for name, address in links.items())
