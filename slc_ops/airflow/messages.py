"""Notifications of tasks, and callbacks that send them when a task of a refresh or a control fails."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from airflow.sdk import get_current_context

from slc_ops.airflow.links import base_url, failed_task, message_links, run_links
from slc_ops.airflow.runs import run_window
from slc_ops.base.window import Window
from slc_ops.observability.links import whole_links
from slc_ops.observability.notify import announce, event_of, tell
from slc_ops.settings.blocks import Notify
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

    The message links the pages of window, version and run, and those ``below`` the run's page by name.
    """
    context = context or get_current_context()
    links = message_links(deployment, window, context, version, below)
    named = None if window is None else str(window)
    announce(event, deployment, sentence, context, window=named, links=links, reminder=reminder)


def on_failure(deployment: str) -> Callable[[Any], None]:
    """Return a failure callback for the tasks of a refresh; it sends the event ``stop``."""

    def stopped(context: Any) -> None:
        below = failed_task(context)
        notify("stop", deployment, _why(context), _window(deployment, context), context=context, below=below)

    return stopped


def on_control_failure(control: str) -> Callable[[Any], None]:
    """Return a failure callback for the tasks of a control DAG."""

    def failed(context: Any) -> None:
        links = whole_links(run_links(context, failed_task(context)), base_url())
        event = event_of("control", control, _why(context), context)
        tell(replace(event, links=links), Notify(), context)

    return failed


def _window(deployment: str, context: Any) -> Window | None:
    """Return the run's window; None if it cannot be determined."""
    try:
        return run_window(Installation.from_environment().deployment(deployment), context)
    except Exception:  # the task's failure may recur here; the message still links the run
        return None


def _why(context: Any) -> str:
    error = context.get("exception")
    return f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else str(error or "failed")
