"""CPU time of Airflow's DAG processor for our files: benchmarks/dag_parsing.py

Each file in a fork of the DAG processor, as in Airflow; the best of three rounds. For comparison the same run
parses a file with one empty DAG, the cost of Airflow itself.
"""

import os
import tempfile
from pathlib import Path

EMPTY = "from airflow.sdk import DAG\n\nDAG('empty', schedule=None)\n"
DAGS = Path(__file__).resolve().parents[1] / "dags"


def main() -> None:
    """Print both figures and their ratio."""
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(AIRFLOW_HOME=home, AIRFLOW__CORE__LOAD_EXAMPLES="False")
        os.environ.setdefault("SLC_OPS_DEPLOYMENTS", str(DAGS / "deployments.yaml"))
        import airflow.cli.commands.dag_processor_command  # noqa: F401  (what the forks have in memory)

        empty = Path(home) / "empty.py"
        empty.write_text(EMPTY)
        ours, least = (
            min(sum(map(parsing, files)) for _ in range(3)) for files in (sorted(DAGS.glob("*.py")), [empty])
        )
    print(f"our files {ours:.2f} s, one empty file {least:.2f} s: {ours / least:.1f} times")


def parsing(file: Path) -> float:
    """Seconds of processor time for one file."""
    from airflow.dag_processing.dagbag import DagBag

    if not (child := os.fork()):
        os._exit(len(DagBag(str(file)).import_errors))
    _, status, used = os.wait4(child, 0)
    if status:
        raise SystemExit(f"{file} has import errors")
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
