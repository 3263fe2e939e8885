"""``slc_replay``: past windows as the operation would have run, from a form; nothing is registered."""

import logging
from datetime import timedelta

from airflow.sdk import DAG, task

from slc_ops.airflow.forms import past_windows_fields
from slc_ops.airflow.retries import default_args
from slc_ops.airflow.runs import checked_conf
from slc_ops.settings.deployments import Places

log = logging.getLogger(__name__)

DOC = """\
### Replay past windows

What the refreshes would have served from one day to another: every window is scored with what the
refreshes before it would have put in place, beside the frozen model, Platt and each method refitted every
window. Look at it before you switch a deployment on, or after you changed its settings.

Nothing is registered and the champion stays. The page is on **SLC**, with the deployment; the log of the task
has the table.
"""


@task
def replay() -> str:
    """Run the replay and write its page; answers the one sentence."""
    from slc_ops.refresh.replay import replay_windows, run_replay
    from slc_ops.reporting.replay import write_replay

    form = checked_conf()
    places, name = Places.from_environment(), form["deployment"]
    settings = places.deployment(name).with_methods(form["methods"] or ())
    windows = replay_windows(settings, form["from"], form["to"])
    target = places.replays(name) / f"{windows[0].key}_{windows[-1].dates[-1] + timedelta(days=1)}"
    found = run_replay(
        name, settings, windows, target, home=places.home, tell=lambda text: log.info("%s", text)
    )
    page = write_replay(target / "replay.html", found)
    for each in found.changes:
        log.info("after %s: %s → %s. %s", each.window, each.served, each.serves_next, each.sentence)
    log.info("page: %s", page)
    return found.sentence


def replay_dag() -> DAG:
    """Build ``slc_replay``."""
    with DAG(
        dag_id="slc_replay",
        dag_display_name="Replay past windows",
        description="What the operation would have served over past windows; nothing is registered",
        schedule=None,
        max_active_runs=1,
        default_args=default_args("slc-ops", hours=4),
        tags=["slc", "replay"],
        doc_md=DOC,
        params=past_windows_fields(),
    ) as dag:
        replay()
    return dag
