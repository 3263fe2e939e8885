"""Notifications of tasks with their links, and callbacks that send them when a task fails."""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from airflow.sdk import get_current_context

from slc_ops.airflow.runs import run_window
from slc_ops.base.window import Window
from slc_ops.observability.links import page_links, whole_links
from slc_ops.observability.notify import announce
from slc_ops.settings.environment import Installation


def notify(
    event: str,
    deployment: str,
    sentence: str,
    window: Window | None,
    version: int | None = None,
    *,
    context: Any = None,
    below: Mapping[str, str] | None = None,
    reminder: bool = False,
) -> None:
    """Notify of an event in the running task, or in a callback's ``context``.

    The message links the pages of window, version and run, and those ``below`` the run's page by name; the
    addresses are absolute if Airflow's base URL is set.
    """
    context = context or get_current_context()
    pages = {} if event == "control" else page_links(deployment, window, version)
    links = whole_links(pages | run_links(context, below), base_url())
    named = None if window is None else str(window)
    announce(event, deployment, sentence, context, window=named, links=links, reminder=reminder)


def on_failure(name: str, event: str = "stop") -> Callable[[Any], None]:
    """Return a failure callback for the tasks of a deployment's refresh, or of a control."""

    def failed(context: Any) -> None:
        window = _window(name, context) if event == "stop" else None
        notify(event, name, _why(context), window, context=context, below=failed_task(context))

    return failed


def on_control_failure(control: str) -> Callable[[Any], None]:
    """Return a failure callback for the tasks of a control DAG."""
    return on_failure(control, "control")


def _window(deployment: str, context: Any) -> Window | None:
    """Return the run's window; None if it cannot be determined."""
    try:
        return run_window(Installation.from_environment().deployment(deployment), context)
    except Exception:  # the task's failure may recur here; the message still links the run
        return None


def _why(context: Any) -> str:
    error = context.get("exception")
    return f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else str(error or "failed")


def version_links(deployment: str, version: int, window: Window) -> dict[str, str]:
    """Return names and addresses of a version's pages, relative to Airflow's host.

    Relative links work under any host name. A proxy's path prefix comes from Airflow's base URL.
    """
    path = urlsplit(base_url()).path.rstrip("/")
    return whole_links(page_links(deployment, window, version), path)


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
