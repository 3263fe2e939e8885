"""Properties of the running DAG run: window, actor, and permission to change the champion."""

import re
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import get_current_context

from slc_ops.base.errors import SettingsError
from slc_ops.base.memory import keep_memory_between_batches
from slc_ops.base.window import Window
from slc_ops.refresh.files import RefreshFiles
from slc_ops.refresh.plan import Plan, read_plan
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.environment import Installation


def run_window(deployment: Deployment, context: Any = None) -> Window:
    """Return the window of the running DAG run, or of a callback's context."""
    context = context or get_current_context()
    if (named := _named(context, deployment)) is not None:
        return deployment.cadence.parse(named)
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    covered = start is not None and end is not None and start < end
    return window_of(deployment, _utc(end) if covered else None, _utc(context["dag_run"].run_after))


def window_of(deployment: Deployment, interval_end: datetime | None, due: datetime) -> Window:
    """Return the window that a run with this data interval refreshes.

    The deployment's own timetable makes intervals of whole windows: the last window applies. With a cron
    expression the interval's end is the time of the run; the last window whose labels were due then applies:
    Mondays at 06:00 give the week before, and so does every later day of that week. A run without a logical
    date has no interval; it refreshes the newest window of the deployment that was due at ``due``. The clock
    is never read, so a retry gets the same window.
    """
    if interval_end is None:
        return deployment.newest_window(due)
    if deployment.schedule is not None:
        return deployment.window_due(interval_end)
    return deployment.cadence.complete_at(interval_end)


def _named(context: Any, deployment: Deployment) -> str | None:
    """Return the window in the newest event of the schedule's asset that precedes the run.

    Airflow records no triggering events for an asset that is scheduled by reference, so the task's inlet
    events are searched.
    """
    schedule, run = deployment.schedule, context["dag_run"]
    if schedule is None or schedule.asset is None or schedule.cron is not None:
        return None
    if not run.run_type.startswith("asset") or not context["task"].inlets:
        return None
    events = [each for each in context["inlet_events"][0] if each.timestamp <= run.run_after]
    newest = max(events, key=lambda each: each.timestamp, default=None)
    name = None if newest is None else (newest.extra or {}).get("window")
    return None if name is None else str(name)


def run_due() -> datetime:
    """Return the time at which the run was due, the only "now" for decisions."""
    return _utc(get_current_context()["dag_run"].run_after)


def run_begun() -> datetime:
    """Return the start time of the run, possibly long after it was due; only for time limits of waits."""
    run = get_current_context()["dag_run"]
    return _utc(run.start_date or run.run_after)


def is_backfill() -> bool:
    """Return True if ``airflow backfill create`` made this run; it never changes a champion."""
    return (
        str(getattr(run_type := get_current_context()["dag_run"].run_type, "value", run_type)) == "backfill"
    )


def run_actor() -> str:
    """Return the user who triggered this run, for the ledger."""
    run = get_current_context()["dag_run"]
    return f"{run.triggering_user_name or 'unknown user'} (Airflow)"


def run_request() -> str:
    """Return this run's id in the ledger; it makes retries idempotent."""
    context = get_current_context()
    return f"{context['dag'].dag_id} {context['run_id']}"


def checked_conf() -> dict[str, Any]:
    """Return the form's values; unknown keys raise `SettingsError`."""
    context = get_current_context()
    allowed = sorted(context["dag"].params)
    unknown = sorted(set(context["dag_run"].conf or {}) - set(allowed))
    if unknown:
        known = ", ".join(allowed)
        raise SettingsError(f"the run's configuration has the unknown key {unknown[0]!r}; known are {known}")
    return {key: context["params"][key] for key in allowed}


def reference(plan_file: Any) -> str:
    """Return ``<window>/<key>`` of a plan's directory, which tasks exchange instead of a path."""
    directory = plan_file.parent
    return f"{directory.parent.name}/{directory.name}"


def planned(installation: Installation, deployment: str, text: str) -> Plan:
    """Return the plan of a reference. Users can write XCom, so the text is validated before use as a path."""
    if not re.fullmatch(r"[0-9]{4}[0-9TZ-]{6,20}/[0-9a-f]{16}", str(text)):
        raise SettingsError(f"{str(text)[:80]!r} is not a reference to a refresh; expected <window>/<key>")
    keep_memory_between_batches()  # every task that reads rows calls this function
    path = RefreshFiles(installation.refreshes(deployment) / text).plan
    if not path.is_file():
        raise SettingsError(
            f"the refresh {text} of {deployment} is not in {installation.home}: "
            "all workers must share SLC_OPS_HOME"
        )
    return read_plan(path)


def _utc(timestamp: Any) -> datetime:
    """Convert Airflow's timestamps to plain UTC datetimes."""
    return datetime.fromisoformat(timestamp.isoformat()).astimezone(UTC)
