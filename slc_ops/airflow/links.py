"""Where people find the pages about a version and a run, by Airflow's own address."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from slc_ops.base.window import Window
from slc_ops.observability.links import page_links, whole_links


def version_links(deployment: str, version: int, window: Window) -> dict[str, str]:
    """Name → address of what an approver wants to open; within Airflow without its host.

    So the links work under whatever name Airflow is reached. A path before it (a proxy's) is taken from
    Airflow's own base URL.
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
    """The same for a message that is read outside Airflow: whole addresses, and the run.

    ``below`` are further addresses below the run's. Where Airflow's base URL is not set, paths.
    """
    found = page_links(deployment, window, version) | run_links(context, below)
    return whole_links(found, base_url())


def run_links(context: Any, below: Mapping[str, str] | None = None) -> dict[str, str]:
    """The run's page and others below it, as paths behind Airflow's address."""
    run = context.get("dag_run")
    if run is None:
        return {}
    page = f"/dags/{quote(run.dag_id)}/runs/{quote(run.run_id)}"
    return {"run": page, **{name: f"{page}{address}" for name, address in (below or {}).items()}}


def failed_task(context: Any) -> dict[str, str]:
    """The page of the task that failed, below its run's."""
    ti = context.get("ti")
    return {} if ti is None else {"task": f"/tasks/{quote(ti.task_id)}"}


def as_markdown(links: dict[str, str]) -> str:
    """One line of links.

    >>> as_markdown({"report": "/slc/demo/versions/3/report"})
    '[report](/slc/demo/versions/3/report)'
    """
    return " · ".join(f"[{name}]({address})" for name, address in links.items())


def base_url() -> str:
    """Airflow's own address; empty where it is not set."""
    from airflow.configuration import conf

    return str(conf.get("api", "base_url", fallback="") or "")
