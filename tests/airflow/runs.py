"""Run a DAG in this process and return the states of its tasks."""

from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import DAG


def run(
    dag: DAG, timestamp: str | None = None, *, retries: int = 0, **conf: Any
) -> tuple[str, dict[str, str]]:
    """``dag.test()``: the state of the run and of each task (mapped ones as ``task[index]``). Tasks are not
    retried unless the test asks for it, and then without a delay.
    """
    for task in dag.tasks:
        task.retries = retries
        task.retry_delay = timedelta(seconds=1)
    when = {} if timestamp is None else {"logical_date": datetime.fromisoformat(timestamp)}
    done = dag.test(run_conf=conf or None, **when)
    states = {
        ti.task_id if ti.map_index < 0 else f"{ti.task_id}[{ti.map_index}]": str(ti.state)
        for ti in done.get_task_instances()
    }
    return str(done.state), states
