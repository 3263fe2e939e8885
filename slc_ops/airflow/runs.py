"""What the running DAG run means for us: its window, who asked for it, and whether it may move a champion."""

import re
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import get_current_context

from slc_ops.base.errors import SettingsError
from slc_ops.base.memory import keep_memory_between_batches
from slc_ops.base.window import Window
from slc_ops.refresh.files import RefreshFiles
from slc_ops.refresh.plan import Plan, read_plan
from slc_ops.settings.deployments import Deployment, Installation


def run_window(deployment: Deployment, context: Any = None) -> Window:
    """The window of the running DAG run, or of a context that a callback was given."""
    context = context or get_current_context()
    if (named := _named(context, deployment)) is not None:
        return deployment.cadence.parse(named)
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    covered = start is not None and end is not None and start < end
    return window_of(deployment, _utc(end) if covered else None, _utc(context["dag_run"].run_after))


def window_of(deployment: Deployment, interval_end: datetime | None, due: datetime) -> Window:
    """The window that a run with this data interval refreshes.

    The deployment's own timetable makes intervals of whole windows: the last window in it is meant. With a
    cron expression the interval's end is the time of the run, and the last window whose labels were due then
    is meant: Mondays at 06:00 give the week before, and so does every day after it. A run that was triggered
    without a logical date has no interval; it refreshes the newest window that was due when the run was, and
    that the deployment still covers. The clock is never asked, so a retry gets the same window.
    """
    if interval_end is None:
        return deployment.newest_window(due)
    if deployment.schedule is not None:
        return deployment.window_due(interval_end)
    return deployment.cadence.complete_at(interval_end)


def _named(context: Any, deployment: Deployment) -> str | None:
    """The window that the newest event of the schedule's asset names, of those that the run was made for.

    Airflow notes no triggering events for an asset that is scheduled on by reference, so they are asked for
    among the task's inlets.
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
    """When the run was due: the only "now" that decides anything."""
    return _utc(get_current_context()["dag_run"].run_after)


def run_begun() -> datetime:
    """When the run began, which may be long after it was due; for waiting only, it decides no result."""
    run = get_current_context()["dag_run"]
    return _utc(run.start_date or run.run_after)


def is_backfill() -> bool:
    """Whether ``airflow backfill create`` made this run; such a run never moves a champion."""
    return (
        str(getattr(run_type := get_current_context()["dag_run"].run_type, "value", run_type)) == "backfill"
    )


def run_actor() -> str:
    """Who asked for this run, for the ledger."""
    run = get_current_context()["dag_run"]
    return f"{run.triggering_user_name or 'unknown user'} (Airflow)"


def run_request() -> str:
    """This run's name in the ledger: tried again, it must not go back twice."""
    context = get_current_context()
    return f"{context['dag'].dag_id} {context['run_id']}"


def checked_conf() -> dict[str, Any]:
    """The form's answers; a key that the form does not have is an error, not ignored."""
    context = get_current_context()
    allowed = sorted(context["dag"].params)
    unknown = sorted(set(context["dag_run"].conf or {}) - set(allowed))
    if unknown:
        known = ", ".join(allowed)
        raise SettingsError(f"the run's configuration has the unknown key {unknown[0]!r}; known are {known}")
    return {key: context["params"][key] for key in allowed}


def reference(plan_file: Any) -> str:
    """What travels between tasks instead of a path: ``<window>/<key>`` of a plan's directory."""
    directory = plan_file.parent
    return f"{directory.parent.name}/{directory.name}"


def planned(installation: Installation, deployment: str, text: str) -> Plan:
    """The plan behind a reference. Users can write XCom, so its text never becomes a path unchecked."""
    if not re.fullmatch(r"[0-9]{4}[0-9TZ-]{6,20}/[0-9a-f]{16}", str(text)):
        raise SettingsError(f"{str(text)[:80]!r} is no reference to a refresh; expected <window>/<key>")
    keep_memory_between_batches()  # every task that works on rows comes by here
    path = RefreshFiles(installation.refreshes(deployment) / text).plan
    if not path.is_file():
        raise SettingsError(
            f"the refresh {text} of {deployment} is not in {installation.home}: "
            "all workers must share SLC_OPS_HOME"
        )
    return read_plan(path)


def _utc(timestamp: Any) -> datetime:
    """Airflow's timestamps as plain datetimes."""
    return datetime.fromisoformat(timestamp.isoformat()).astimezone(UTC)
