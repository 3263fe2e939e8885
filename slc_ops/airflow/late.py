"""``slc_late``: notify if no verdict exists by the time set with ``verdict_due``."""

from airflow.sdk import DAG, CronTriggerTimetable, get_current_context, task

from slc_ops.airflow.retries import default_args
from slc_ops.airflow.runs import run_due
from slc_ops.settings.deployments import Installation, read_deployments

DOC = """\
### Verdicts that are late

Every ten minutes this DAG checks the newest window of each deployment. If its verdict is due (`verdict_due`
after its labels) and does not exist, the DAG sends the event `late`, once. It also notices runs that never
started: a paused DAG, a schedule that made no run, an asset that had no event.
"""


@task
def look() -> list[str]:
    """Notify about every late window once."""
    from slc_ops.airflow.links import message_links
    from slc_ops.observability.notify import announce
    from slc_ops.refresh.schedule import late_window, note_told

    installation = Installation.from_environment()
    told = []
    for name in read_deployments(installation.deployments_file)[0]:
        window = late_window(installation, name, run_due())
        if window is not None:
            sentence = (
                f"no verdict exists for window {window} of {name}, which was due; the champion stays; look "
                f"at the runs of slc_weekly_refresh__{name}"
            )
            context = get_current_context()
            links = message_links(name, window, context)
            announce("late", name, sentence, context, window=str(window), links=links)
            note_told(installation, name, window)
            told.append(f"{name} {window}")
    return told


def late_dag() -> DAG:
    """Build ``slc_late``."""
    with DAG(
        dag_id="slc_late",
        dag_display_name="Late verdicts",
        description="Tells of windows whose verdict is late",
        schedule=CronTriggerTimetable("*/10 * * * *", timezone="UTC"),
        catchup=False,
        max_active_runs=1,
        default_args=default_args("slc-ops", hours=0.5),
        tags=["slc", "watch"],
        doc_md=DOC,
    ) as dag:
        look()
    return dag
