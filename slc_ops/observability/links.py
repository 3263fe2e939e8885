"""Links of notifications: report and data docs on the SLC page, the version in MLflow, the run."""

from urllib.parse import quote, urlsplit

from slc_ops.base.window import Window
from slc_ops.settings.environment import LinkVariables, registered_model


def mlflow_page(deployment: str, version: int | None) -> str | None:
    """Return the page in MLflow of a version, or of the registered model; None without MLflow's address."""
    found = LinkVariables.read()
    address = found.mlflow_url or found.tracking_uri or ""
    if not address.startswith(("http://", "https://")):
        return None
    parts = urlsplit(address)
    host = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
    model = f"{host}/#/models/{registered_model(deployment)}"
    return model if version is None else f"{model}/versions/{version}"


def page_links(deployment: str, window: Window | None, version: int | None) -> dict[str, str]:
    """Return name → address; pages of SLC are paths below Airflow's address.

    Without a version there is no report, without a window there are no data docs.
    """
    page = f"/slc/{quote(deployment)}"
    found = {
        "report": None if version is None else f"{page}/versions/{version}/report",
        "data docs": None if window is None else f"{page}/windows/{window.key}/validation",
        "all versions": page,
        "MLflow": mlflow_page(deployment, version),
    }
    return {name: address for name, address in found.items() if address is not None}


def whole_links(links: dict[str, str], base: str) -> dict[str, str]:
    """Return the links with Airflow's address before those that are only paths.

    >>> whole_links({"all versions": "/slc/demo"}, "https://air.example/flow/")
    {'all versions': 'https://air.example/flow/slc/demo'}
    """
    base = base.rstrip("/")
    return {name: f"{base}{link}" if link.startswith("/") else link for name, link in links.items()}


def terminal_links(deployment: str, window: Window, version: int | None) -> dict[str, str]:
    """Return the links for a change made on a terminal; Airflow's address comes from the environment."""
    return whole_links(page_links(deployment, window, version), LinkVariables.read().airflow_url or "")
