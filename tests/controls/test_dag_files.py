"""The control DAGs parse quickly, run monthly and have a form."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.airflow.test_dag_files import HEAVY

FILE = Path(__file__).parents[2] / "dags" / "slc_controls.py"
OURS = {"control_flight_delay", "control_movielens"}


@pytest.mark.slow
def test_parsing_imports_nothing_heavy() -> None:
    script = "import runpy, sys\nfor file in sys.argv[1:]: runpy.run_path(file)\nprint(*sorted(sys.modules))"
    command = [sys.executable, "-c", script, str(FILE)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "airflow.sdk" in loaded
    assert loaded & HEAVY == set()


def test_airflow_finds_both_without_errors() -> None:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(FILE)
    assert bag.import_errors == {}
    assert set(bag.dags) == OURS
    for dag in bag.dags.values():
        assert set(dag.params) == {"data", "backbone", "seed"}
        assert {task.task_id for task in dag.tasks} == {"prepare", "refresh_arm", "check"}
        assert dag.max_active_runs == 1
