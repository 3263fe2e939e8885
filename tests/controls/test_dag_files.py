"""The control DAGs have a form."""

from pathlib import Path

FILE = Path(__file__).parents[2] / "dags" / "slc_controls.py"
OURS = {"control_flight_delay", "control_movielens"}


def test_airflow_finds_both_without_errors() -> None:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(FILE)
    assert bag.import_errors == {}
    assert set(bag.dags) == OURS
    for dag in bag.dags.values():
        assert set(dag.params) == {"data", "backbone", "seed"}
        assert {task.task_id for task in dag.tasks} == {"prepare", "refresh_arm", "check"}
        assert dag.max_active_runs == 1
