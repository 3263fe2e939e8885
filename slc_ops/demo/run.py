"""The embedded platform: Airflow and MLflow on SQLite and a local lake, all in ``var/``.

``python -m slc_ops.demo.run run`` is ``make run``; ``python -m slc_ops.demo.run ui`` is ``make ui``.
It neither reads nor writes outside the checkout and listens only on loopback.
"""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TextIO

import click

from slc_ops.base.console import run_app
from slc_ops.base.errors import SlcError
from slc_ops.base.files import write_text
from slc_ops.base.mlflow_client import create_database
from slc_ops.demo.home import DEMO, DEMO_WINDOW, held, simulate_lake

ROOT = Path(__file__).resolve().parents[2]
DEMO_DAG = f"slc_weekly_refresh__{DEMO}"


def environment(home: Path) -> dict[str, str]:
    """Return the variables of the embedded platform's processes, without inherited Airflow settings."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "MLFLOW_", "SLC_OPS_"))}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return kept | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}",
        "SLC_OPS_HOME": str(home),
        "SLC_OPS_DEPLOYMENTS": str(ROOT / "dags" / "deployments.yaml"),
        "MLFLOW_TRACKING_URI": f"sqlite:///{home}/mlflow/mlflow.db",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "False",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "DO_NOT_TRACK": "true",
        "GX_ANALYTICS_ENABLED": "false",
        "SCARF_ANALYTICS": "false",
        "AIRFLOW_HOME": str(home / "airflow"),
        # A busy scheduler holds locks for longer than SQLite's default timeout of five seconds.
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow/airflow.db?timeout=60",
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    }


@contextmanager
def opened(home: Path) -> Iterator[dict[str, str]]:
    """Lock ``var/`` for one process and prepare its databases."""
    with held(home, "remove it with 'make clean' and run again"):
        variables = environment(home)
        _prepare_airflow(home, variables)
        database = home / "mlflow" / "mlflow.db"
        if not database.exists():
            click.echo("Preparing MLflow's registry …")
            create_database(database)
        yield variables


def _prepare_airflow(home: Path, variables: dict[str, str]) -> None:
    """Create Airflow's metadata database once; restart an interrupted creation."""
    from importlib.metadata import version

    ready = home / "airflow" / f".ready-{version('apache-airflow-core')}"
    if ready.exists():
        return
    click.echo("Preparing Airflow's metadata database …")
    if not any((home / "airflow").glob(".ready-*")):
        shutil.rmtree(home / "airflow", ignore_errors=True)
    (home / "airflow").mkdir(parents=True, exist_ok=True)
    log = home / "airflow" / "migrate.log"
    command = ["airflow", "db", "migrate"]
    with log.open("w") as stream:
        done = subprocess.run(command, env=variables, stdout=stream, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise SlcError(f"'{' '.join(command)}' failed with code {done.returncode}; its output is in {log}")
    write_text(ready, "")


def refresh_demo(home: Path, variables: dict[str, str]) -> None:
    """Run the demo's newest week with Airflow; print one line per finished task."""
    # One second after the week's end: the run gets the week as its data interval and does not occupy
    # the logical dates of scheduled and backfilled runs (Mondays, 00:00).
    timestamp = DEMO_WINDOW.end.isoformat().replace("00:00:00", "00:00:01")
    log = home / "airflow" / "run.log"
    click.echo(f"Running {DEMO_DAG} for {DEMO_WINDOW} with Airflow …")
    with log.open("w") as stream:
        process = subprocess.Popen(
            ["airflow", "dags", "test", DEMO_DAG, timestamp],
            env=variables,
            cwd=home,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        try:
            assert process.stdout is not None  # noqa: S101 - Popen was given a pipe
            _show_tasks(process.stdout, stream)
        finally:
            if process.poll() is None:
                process.terminate()
            code = process.wait()
    if code:
        raise SlcError(f"the DAG run did not succeed; {_last_error(log)} (full log: {log})")
    _correct_start(home / "airflow" / "airflow.db")


def _correct_start(database: Path) -> None:
    """Set a run's start to that of its first task; ``airflow dags test`` writes the logical date."""
    first = (
        "SELECT min(start_date) FROM task_instance "
        "WHERE task_instance.dag_id = dag_run.dag_id AND task_instance.run_id = dag_run.run_id"
    )
    with closing(sqlite3.connect(database, timeout=60)) as connection, connection:
        connection.execute(
            f"UPDATE dag_run SET start_date = ({first}) WHERE start_date < ({first})"  # noqa: S608 - constants
        )


def _show_tasks(lines: Iterable[str], log: TextIO) -> None:
    started: dict[str, float] = {}
    for line in lines:
        log.write(line)
        if match := re.search(
            r"\[DAG TEST\] (starting|end task) ?(?:task)? ?task_id=(\S+) map_index=(-?\d+)", line
        ):
            event, task, index = match.groups()
            label = task if index == "-1" else f"{task}[{index}]"
            if event == "starting":
                started[label] = time.monotonic()
            else:
                click.echo(f"  {label:<28} {time.monotonic() - started.get(label, time.monotonic()):5.1f} s")


def _last_error(log: Path) -> str:
    said = r"^(?:[\w.]+\.)?(\w+(?:Error|Exception|Stopped|Failed): .+)|(Error loading DAG from [^\[]+)"
    errors = ["".join(pair) for pair in re.findall(said, log.read_text(errors="replace"), re.MULTILINE)]
    return errors[-1][:500] if errors else "no task gave a reason"


def show_result(home: Path) -> None:
    """Print the comparison, the verdict with reasons, the version, and the path of the report."""
    from slc_ops.refresh.summary import print_refresh
    from slc_ops.refresh.versions import newest_refresh
    from slc_ops.settings.environment import Installation

    installation = Installation.from_environment()
    plan = newest_refresh(installation, DEMO, DEMO_WINDOW)
    if plan is None:
        raise SlcError(f"Airflow finished, but {home} holds no verdict; see {home / 'airflow' / 'run.log'}")
    print_refresh(installation, plan)
    click.echo("Next:    make ui, or .venv/bin/slc-ops status")


@click.group()
def app() -> None:
    """Run the embedded platform."""


home_option = click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    default=ROOT / "var",
    help="Where everything is kept.  [default: var]",
)


@app.command()
@home_option
def run(home: Path) -> None:
    """Run the demo from an empty directory to a promoted champion."""
    home = home.absolute()
    with opened(home) as variables:
        os.environ.update(variables)
        simulate_lake(home, click.echo)
        refresh_demo(home, variables)
        show_result(home)


@app.command()
@home_option
@click.option("--airflow-port", default=8080, envvar="AIRFLOW_PORT", show_default=True)
@click.option("--mlflow-port", default=5000, envvar="MLFLOW_PORT", show_default=True)
def ui(home: Path, airflow_port: int, mlflow_port: int) -> None:
    """Serve Airflow and MLflow until Ctrl-C."""
    from slc_ops.demo.ui import serve

    home = home.absolute()
    with opened(home) as variables:
        serve(home, variables, airflow_port, mlflow_port)


if __name__ == "__main__":
    os.umask(0o077)  # also for Airflow and MLflow: only the owner may read their databases, logs and keys
    run_app(app)
