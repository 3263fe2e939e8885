"""The control DAGs: quick to parse, monthly, with a form."""

import subprocess
import sys
from pathlib import Path

from tests.airflow.test_dag_files import HEAVY

DAGS = Path(__file__).parents[2] / "dags"
OURS = ("control_flight_delay", "control_movielens")


def test_parsing_imports_nothing_heavy() -> None:
    script = "import runpy, sys\nfor file in sys.argv[1:]: runpy.run_path(file)\nprint(*sorted(sys.modules))"
    command = [sys.executable, "-c", script, *(str(DAGS / f"{name}.py") for name in OURS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "airflow.sdk" in loaded
    assert loaded & HEAVY == set()


def test_airflow_finds_both_without_errors() -> None:
    from airflow.dag_processing.dagbag import DagBag

    for name in OURS:
        bag = DagBag(DAGS / f"{name}.py")
        assert bag.import_errors == {}
        (dag,) = bag.dags.values()
        assert dag.dag_id == name
        assert set(dag.params) == {"data", "backbone", "seed"}
        assert {task.task_id for task in dag.tasks} == {"prepare", "refresh_arm", "check"}
        assert dag.max_active_runs == 1
