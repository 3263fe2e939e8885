"""Links to the pages of a version and a run, under Airflow's address."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from slc_ops.base.window import Window
from slc_ops.observability.links import page_links, whole_links


def version_links(deployment: str, version: int, window: Window) -> dict[str, str]:
    """Return names and addresses of a version's pages, relative to Airflow's host.

    Relative links work under any host name. A proxy's path prefix comes from Airflow's base URL.
    """
    path = urlsplit(base_url()).path.rstrip("/")
    return whole_links(page_links(deployment, window, version), path)


def message_links(
    deployment: str,
    window: Window | None,
    context: Any,
    version: int | None = None,
    below: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return absolute links for messages that are read outside Airflow, with the run's page.

    ``below`` maps names to paths below the run's page. Without a base URL the links are relative.
    """
    found = page_links(deployment, window, version) | run_links(context, below)
    return whole_links(found, base_url())


def run_links(context: Any, below: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the run's page and pages below it, as paths under Airflow's address."""
    run = context.get("dag_run")
    if run is None:
        return {}
    page = f"/dags/{quote(run.dag_id)}/runs/{quote(run.run_id)}"
    return {"run": page, **{name: f"{page}{address}" for name, address in (below or {}).items()}}


def failed_task(context: Any) -> dict[str, str]:
    """Return the path of the failed task's page, below its run's page."""
    ti = context.get("ti")
    return {} if ti is None else {"task": f"/tasks/{quote(ti.task_id)}"}


def as_markdown(links: dict[str, str]) -> str:
    """Format the links as one line of Markdown.

    >>> as_markdown({"report": "/slc/demo/versions/3/report"})
    '[report](/slc/demo/versions/3/report)'
    """
    return " · ".join(f"[{name}]({address})" for name, address in links.items())


def base_url() -> str:
    """Return Airflow's base URL; empty if it is not set."""
    from airflow.configuration import conf

    return str(conf.get("api", "base_url", fallback="") or "")
