"""Wait for the log's rows, its labels or an asset's event, without occupying a worker."""

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.standard.triggers.temporal import DateTimeTrigger
from airflow.sdk import Asset, BaseOperator, get_current_context

from slc_ops.airflow.runs import run_begun, run_window
from slc_ops.base.errors import InputError
from slc_ops.base.window import Window
from slc_ops.refresh.windows import lacking
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.environment import Installation

PATIENCE = timedelta(days=1)
"""Time limit for an asset if ``wait_for_source`` is not set."""


def asset_named(text: str) -> Any:
    """Return a reference to another team's asset: by URI if the text is one, otherwise by name.

    Airflow normalises URIs (``lake://raw`` to ``lake://raw/``) and resolves only the normal form.
    """
    return Asset.ref(uri=Asset(uri=text).uri) if "://" in text else Asset.ref(name=text)


class WaitForSource(BaseOperator):  # type: ignore[misc]  # Airflow carries no usable types
    """Succeed when the window has rows (and labels), and the schedule's asset an event about it.

    The check runs on a worker, which has the sources' credentials; between checks the task is deferred. It
    fails ``wait_for_source`` after the start of the run, with the missing part in the message. The limit
    counts from the actual start, so runs of a paused DAG and cleared runs get the full time.
    """

    def __init__(self, *, deployment: str, **options: Any) -> None:
        super().__init__(**options)
        self.deployment = deployment

    def execute(self, context: Any, event: Any = None) -> str:
        """Check, and defer until the next check."""
        installation = Installation.from_environment()
        settings = installation.deployment(self.deployment)
        window = run_window(settings)
        ended = settings.ends_at is not None and window.end > settings.ends_at
        missing = (
            None if ended else no_event(settings, window) or lacking(installation, self.deployment, window)
        )
        if missing is None:
            return str(window)
        patience = settings.wait_for_source or PATIENCE
        until, now = run_begun() + patience, datetime.now(UTC)  # only for the time of the next check
        if now >= until:
            raise InputError(
                f"window {window} of {self.deployment!r} is not there after {patience}: {missing}"
            )
        pause = min(max(patience / 20, timedelta(seconds=5)), timedelta(minutes=5))
        self.log.info("%s; next check in %s, until %s", missing, pause, until)
        self.defer(trigger=DateTimeTrigger(moment=min(now + pause, until)), method_name="execute")
        raise AssertionError("defer raises")


def no_event(settings: Deployment, window: Window) -> str | None:
    """Describe the missing event of the schedule's asset; None if an event names the window or follows it."""
    schedule = settings.schedule
    if schedule is None or schedule.cron is None or schedule.asset is None:
        return None
    for event in get_current_context()["inlet_events"][asset_named(schedule.asset)]:
        named = (event.extra or {}).get("window") or getattr(event, "partition_key", None)
        if settings.cadence.parse(named) == window if named else event.timestamp >= window.end:
            return None
    return f"the asset {schedule.asset} has no event for {window}"
