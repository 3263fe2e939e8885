"""What a message links to: report and data docs on the page SLC, the version in MLflow, the run."""

from urllib.parse import quote, urlsplit

from slc_ops.base.window import Window
from slc_ops.settings.environment import LinkVariables, registered_model


def mlflow_version(deployment: str, version: int) -> str | None:
    """The version's page in MLflow, where its address is known."""
    model = mlflow_model(deployment)
    return None if model is None else f"{model}/versions/{version}"


def mlflow_model(deployment: str) -> str | None:
    """The registered model's page in MLflow, where its address is known."""
    found = LinkVariables.read()
    address = found.mlflow_url or found.tracking_uri or ""
    if not address.startswith(("http://", "https://")):
        return None
    parts = urlsplit(address)
    host = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
    return f"{host}/#/models/{registered_model(deployment)}"


def page_links(deployment: str, window: Window | None, version: int | None) -> dict[str, str]:
    """Name → address of what there is to open; what is on the page SLC as a path behind Airflow's address.

    Without a version there is no report, without a window there are no data docs.
    """
    page = f"/slc/{quote(deployment)}"
    found = {
        "report": None if version is None else f"{page}/versions/{version}/report",
        "data docs": None if window is None else f"{page}/windows/{window.key}/validation",
        "all versions": page,
        "MLflow": mlflow_model(deployment) if version is None else mlflow_version(deployment, version),
    }
    return {name: address for name, address in found.items() if address is not None}


def whole_links(links: dict[str, str], base: str) -> dict[str, str]:
    """The links with Airflow's address before what is only a path.

    >>> whole_links({"all versions": "/slc/demo"}, "https://air.example/flow/")
    {'all versions': 'https://air.example/flow/slc/demo'}
    """
    base = base.rstrip("/")
    return {name: f"{base}{link}" if link.startswith("/") else link for name, link in links.items()}


def terminal_links(deployment: str, window: Window, version: int | None) -> dict[str, str]:
    """The links of a change that was made on a terminal, where Airflow's address is in the environment."""
    return whole_links(page_links(deployment, window, version), LinkVariables.read().airflow_url or "")
