"""``make run`` from an empty directory to a champion, also after a kill."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from slc_ops.demo.home import DEMO_WINDOW, LAYOUT
from slc_ops.demo.run import environment

pytestmark = pytest.mark.services

ROOT = Path(__file__).parents[2]


def start(home: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-u", "-m", "slc_ops.demo.run", "run", "--home", str(home)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip


def status(home: Path) -> dict[str, dict[str, object]]:
    result = subprocess.run(
        ["slc-ops", "status", "--json", "-"],
        env=environment(home),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(result.stdout)["deployments"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home after ``make run`` was killed half-way and started again."""
    home = tmp_path_factory.mktemp("killed") / "var"
    first = start(home)
    assert first.stdout is not None
    for line in first.stdout:
        if line.startswith("  validate"):
            break
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    first.stdout.close()

    second = start(home)
    output, _ = second.communicate(timeout=300)
    assert second.returncode == 0, output
    assert "promote" in output
    return home


def test_the_next_run_completes_a_killed_run(home: Path) -> None:
    champion = status(home)["demo"]["champion"]
    assert isinstance(champion, dict)
    assert champion["version"] == 1
    assert champion["method"] in ("slc_eb", "slc_mix")
    assert champion["metrics"]["auc"] > champion["metrics"]["platt_auc"] + 0.01

    script = (
        "import mlflow, pandas; "
        "m = mlflow.pyfunc.load_model('models:/slc-demo@champion'); "
        "print(m.predict(pandas.DataFrame({'item_id': ['never seen'], 'logit': [0.5]})))"
    )
    subprocess.run([sys.executable, "-c", script], env=environment(home), check=True)


def test_the_demo_without_airflow_gives_the_same_table_verdict_and_report(home: Path, tmp_path: Path) -> None:
    variables = environment(tmp_path / "elsewhere")  # paths are not compared
    command = ["slc-ops", "demo", "--out", "here", "--json", "-"]
    said = subprocess.run(command, env=variables, cwd=tmp_path, capture_output=True, text=True, check=True)
    alone = json.loads(said.stdout)
    command = ["slc-ops", "refresh", "--deployment", "demo", "--window", str(DEMO_WINDOW), "--json", "-"]
    said = subprocess.run(command, env=environment(home), capture_output=True, text=True, check=True)
    with_airflow = json.loads(said.stdout)  # the run is finished and only read here

    assert Path(alone["report"]).stat().st_size > 100_000
    assert Path(alone["report"]).is_relative_to(tmp_path / "here")
    for places in ("report", "tracking_uri"):
        del alone[places], with_airflow[places]
    assert alone == with_airflow
    assert (alone["verdict"], alone["version"]) == ("promote", 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here"]


def test_airflow_waits_a_minute_for_a_locked_database(tmp_path: Path) -> None:
    """A backfill beside a busy scheduler must wait for the lock instead of failing after SQLite's five
    seconds.
    """
    script = (
        "from airflow.settings import engine\n"
        "with engine.connect() as c: wait = c.exec_driver_sql('PRAGMA busy_timeout').scalar()\n"
        "print(wait, engine.url.database)"
    )
    (tmp_path / "airflow").mkdir()
    command = [sys.executable, "-c", script]
    said = subprocess.run(command, env=environment(tmp_path), capture_output=True, text=True, check=True)
    assert said.stdout.split()[-2:] == ["60000", str(tmp_path / "airflow" / "airflow.db")]


def test_a_home_with_another_layout_is_refused_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "layout.json").write_text(json.dumps({"layout": LAYOUT + 1}))
    process = start(tmp_path)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "make clean" in output
    assert "Traceback" not in output


def test_a_second_run_in_the_same_home_is_refused(tmp_path: Path) -> None:
    import fcntl

    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("4242")
        lock.flush()
        process = start(tmp_path)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "process 4242 already uses" in output
