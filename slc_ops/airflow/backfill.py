"""DAGs for past windows, started from a form: ``slc_backfill`` refreshes them in order and moves no champion;
``slc_replay`` simulates the refreshes and registers nothing.
"""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, Param, TaskInstanceState, TriggerRule, get_current_context, task
from airflow.sdk.exceptions import AirflowRescheduleException

from slc_ops.airflow.forms import past_windows_fields, plain_dag
from slc_ops.airflow.runs import checked_conf, run_actor, run_due
from slc_ops.base.errors import SlcError
from slc_ops.refresh import pipeline
from slc_ops.refresh.backfill import BackfillWindow, plan_backfill, promote_window, windows_between
from slc_ops.refresh.versions import version_of
from slc_ops.settings.environment import Installation

log = logging.getLogger(__name__)

OVER = {"success", "failed", "skipped", "upstream_failed", "removed"}
"""Final states of a window's task."""

DOC = """\
### Refresh past windows

One version per window, oldest first, one at a time; finished windows are skipped unless you ask for them
**again** (the same rows and settings then give the same version). The champion stays, unless you tick
**promote**: then each window's version is promoted by the gate's rules, in your name.

The first task lists the plan before anything is done; tick **dry run** to stop there. A window that
fails does not stop the others; the last task lists them all, and a second run refreshes only the missing
ones.

For the whole DAG per window, in Airflow's own way: `airflow backfill create --dag-id
slc_weekly_refresh__<name> --from-date … --to-date …`. It moves no champion either; `--max-active-runs 1`
keeps the windows in their order.
"""


REPLAY_DOC = """\
### Replay past windows

What the refreshes would have served from one day to another: every window is scored with what the
refreshes before it would have put in place, beside the frozen model, Platt and each method refitted every
window. Look at it before you switch a deployment on, or after you changed its settings.

Nothing is registered and the champion stays. The page is on **SLC**, with the deployment; the log of the task
has the table.
"""


@task
def plan() -> list[str]:
    """Validate the form, log the plan, return the windows to refresh (none in a dry run)."""
    form, windows = _asked()
    due = [each for each in windows if each.due]
    log.info("backfill of %s: %d of %d windows to refresh", form["deployment"], len(due), len(windows))
    for each in windows:
        log.info("%s", each)
    log.info("methods: %s", ", ".join(form["methods"] or ("those of the deployment",)))
    log.info("champion: %s", "promoted where the gate's rules allow it" if form["promote"] else "stays")
    if form["dry_run"]:
        log.info("dry run: nothing is done")
        return []
    return [str(each.window) for each in due]


@task(max_active_tis_per_dagrun=1, map_index_template="{{ task.op_kwargs['window'] }}")
def refresh(window: str) -> str:
    """Refresh one window: all steps up to the registered version."""
    _wait_for_turn()
    form = checked_conf()
    installation = Installation.from_environment()
    deployment = installation.deployment(form["deployment"])
    plan = pipeline.refresh(
        installation,
        form["deployment"],
        deployment.cadence.parse(window),
        settings=deployment.with_methods(form["methods"] or ()),
        until="publish",
        tell=lambda text: log.info("%s: %s", window, text),
    )
    said = promote_window(installation, plan, actor=run_actor()) if form["promote"] else "the champion stays"
    version = version_of(plan.files)
    return f"{'no version' if version is None else f'version {version.number}'}; {said}"


def _wait_for_turn() -> None:
    """Reschedule the task until all earlier windows are finished, so that versions are in window order.

    Airflow guarantees no order between mapped tasks: its scheduler takes the lowest index that is ready, and
    a window that awaits a retry is not ready; ``dag.test()`` takes them in any order.
    """
    ti = get_current_context()["ti"]
    found = ti.get_task_states(dag_id=ti.dag_id, task_ids=[ti.task_id], run_ids=[ti.run_id])[ti.run_id]
    earlier = {found.get(f"{ti.task_id}_{index}") for index in range(ti.map_index)}
    if not earlier <= OVER:
        seconds = 10 if TaskInstanceState.UP_FOR_RETRY in earlier else 1
        log.info("an earlier window is not finished; next check in %d s", seconds)
        raise AirflowRescheduleException(datetime.now(UTC) + timedelta(seconds=seconds))


@task(trigger_rule=TriggerRule.ALL_DONE)
def summary() -> str:
    """Summarise the windows; fail if one is missing."""
    form, windows = _asked()
    missing = [str(each.window) for each in windows if not each.finished]
    for each in windows:
        log.info("%s", each)
    if missing and not form["dry_run"]:
        raise SlcError(
            f"{len(missing)} of {len(windows)} windows are not finished: {', '.join(missing)}; see their "
            "tasks, then run this backfill again: it refreshes only the missing ones"
        )
    return f"{len(windows) - len(missing)} of {len(windows)} windows are finished"


def _asked() -> tuple[dict[str, Any], list[BackfillWindow]]:
    """Return the validated form and the state of its windows."""
    form = checked_conf()
    installation = Installation.from_environment()
    deployment = installation.deployment(form["deployment"])
    windows = windows_between(deployment, form["from"], form["to"], run_due())
    return form, plan_backfill(installation, form["deployment"], windows, again=form["again"])


@task
def replay() -> str:
    """Run the replay and write its page; return the summary sentence."""
    from slc_ops.refresh.replay import replay_windows, run_replay
    from slc_ops.reporting.replay import write_replay

    form = checked_conf()
    installation, name = Installation.from_environment(), form["deployment"]
    settings = installation.deployment(name).with_methods(form["methods"] or ())
    windows = replay_windows(settings, form["from"], form["to"])
    target = installation.replays(name) / f"{windows[0].key}_{windows[-1].dates[-1] + timedelta(days=1)}"
    found = run_replay(
        name, settings, windows, target, home=installation.home, tell=lambda text: log.info("%s", text)
    )
    page = write_replay(target / "replay.html", found)
    for each in found.changes:
        log.info("after %s: %s → %s. %s", each.window, each.served, each.serves_next, each.sentence)
    log.info("page: %s", page)
    return found.sentence


def backfill_dag() -> DAG:
    """Build ``slc_backfill``."""
    choices = {
        "promote": ("Promote", "Let these windows change the champion"),
        "again": ("Again", "Also refresh windows that have a version"),
        "dry_run": ("Dry run", "Only report what would be done"),
    }
    fields = {
        name: Param(False, type="boolean", title=title, description=text)
        for name, (title, text) in choices.items()
    }
    with plain_dag(
        "slc_backfill",
        "Backfill past windows",
        "Refresh past windows of a deployment; the champion stays",
        DOC,
        "backfill",
        4,
        max_active_runs=1,
        params={**past_windows_fields(), **fields},
    ) as dag:
        refresh.expand(window=plan()) >> summary()
    return dag


def replay_dag() -> DAG:
    """Build ``slc_replay``."""
    with plain_dag(
        "slc_replay",
        "Replay past windows",
        "What the operation would have served over past windows; nothing is registered",
        REPLAY_DOC,
        "replay",
        4,
        max_active_runs=1,
        params=past_windows_fields(),
    ) as dag:
        replay()
    return dag
