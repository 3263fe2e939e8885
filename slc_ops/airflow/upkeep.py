"""DAGs for all deployments: ``slc_late`` notifies of late verdicts, ``slc_clean`` removes old files."""

import logging
from typing import Any

from airflow.sdk import DAG, CronTriggerTimetable, task

from slc_ops.airflow.forms import plain_dag
from slc_ops.airflow.messages import notify
from slc_ops.airflow.runs import run_due
from slc_ops.base.errors import SlcError
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.deployments_file import read_deployments
from slc_ops.settings.environment import Installation

log = logging.getLogger(__name__)

LATE_DOC = """\
### Late verdicts

Every ten minutes this DAG checks the newest window of each deployment. If its verdict is due (`verdict_due`
after its labels) and does not exist, the DAG sends the event `late`, once. It also notices runs that never
started: a paused DAG, a schedule that made no run, an asset that had no event.
"""

CLEAN_DOC = """\
### Retention

Every night this DAG removes windows and refreshes from disk for each deployment whose entry sets
`keep_windows` or `keep_refreshes`. Files that the next refresh, a rollback or a running refresh needs stay,
as do the ledger and MLflow. `slc-ops clean --deployment NAME --dry-run` lists the files beforehand.
"""


@task
def notify_late() -> list[str]:
    """Notify about every late window once."""
    from slc_ops.observability.troubles import late_window, note_notified

    installation = Installation.from_environment()
    late = []
    for name in read_deployments(installation.deployments_file)[0]:
        window = late_window(installation, name, run_due())
        if window is not None:
            sentence = (
                f"no verdict exists for window {window} of {name}, which was due; the champion stays; check "
                f"the runs of slc_weekly_refresh__{name}"
            )
            notify("late", name, sentence, window)
            note_notified(installation, name, window)
            late.append(f"{name} {window}")
    return late


def has_retention(deployment: Deployment) -> bool:
    """Return True if the entry sets its own retention; defaults never remove anything."""
    return bool({"keep_windows", "keep_refreshes"} & deployment.model_fields_set)


@task
def clean() -> dict[str, int]:
    """Remove expired files; a failure in one deployment does not affect the others."""
    from slc_ops.refresh.retention import removable, remove

    installation = Installation.from_environment()
    freed, failures = {}, []
    for name, deployment in read_deployments(installation.deployments_file)[0].items():
        if not has_retention(deployment):
            continue
        try:
            found = removable(installation, name)
            freed[name] = found.bytes
            remove(found)
        except SlcError as error:
            failures.append(error)
            log.error("%s was not cleaned: %s", name, error)
        else:
            log.info("%s: %d windows and %d refreshes removed, %d bytes", name,
                     len(found.windows), len(found.refreshes), found.bytes)  # fmt: skip
    if failures:
        raise failures[0]
    return freed


def late_dag() -> DAG:
    """Build ``slc_late``."""
    description = "Notifies of windows whose verdict is late"
    return _periodic(
        "*/10 * * * *", notify_late, "slc_late", "Late verdicts", description, LATE_DOC, "watch", 0.5
    )


def clean_dag() -> DAG:
    """Build ``slc_clean``."""
    description = "Removes windows and refreshes beyond the deployments' limits"
    return _periodic("30 3 * * *", clean, "slc_clean", "Retention", description, CLEAN_DOC, "upkeep", 2)


def _periodic(cron: str, step: Any, *about: Any) -> DAG:
    """Build a DAG of one task with a schedule; ``about`` are the arguments of :func:`plain_dag`."""
    schedule = CronTriggerTimetable(cron, timezone="UTC")
    with plain_dag(*about, schedule=schedule, catchup=False, max_active_runs=1) as dag:
        step()
    return dag
