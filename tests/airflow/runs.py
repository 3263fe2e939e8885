"""Running a DAG in this process, and what came of it."""

from datetime import datetime, timedelta
from typing import Any

from airflow.sdk import DAG


def run(dag: DAG, moment: str | None = None, *, retries: int = 0, **conf: Any) -> tuple[str, dict[str, str]]:
    """``dag.test()``: the run's state and each task's (mapped ones as ``task[index]``).

    Nothing is tried again, unless the test is about that, and then at once.
    """
    for task in dag.tasks:
        task.retries = retries
        task.retry_delay = timedelta(seconds=1)
    when = {} if moment is None else {"logical_date": datetime.fromisoformat(moment)}
    done = dag.test(run_conf=conf or None, **when)
    states = {
        ti.task_id if ti.map_index < 0 else f"{ti.task_id}[{ti.map_index}]": str(ti.state)
        for ti in done.get_task_instances()
    }
    return str(done.state), states
