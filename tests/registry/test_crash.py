"""Kill the publisher after each of its external calls: the next attempt completes the same run."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slc_ops.base.names import RETIRED_TAG
from slc_ops.registry import Registry
from tests.registry.crashing import main
from tests.registry.factory import installation_in, read_aliases

NEVER = 10_000


def crash(home: Path, parameters: Path, calls: int) -> list[str]:
    """Run the publisher until its ``calls``-th call; return the calls it made."""
    result = subprocess.run(
        [sys.executable, "-m", "tests.registry.crashing", str(home), str(parameters), str(calls)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        timeout=120,
    )
    expected = 0 if calls == NEVER else -signal.SIGKILL
    assert result.returncode == expected, result.stderr
    return result.stdout.splitlines()


@pytest.fixture(scope="module")
def forked(migrated: Path, parameters: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The calls of an undisturbed publisher."""
    home = tmp_path_factory.mktemp("calls")
    (home / "mlflow").mkdir()
    shutil.copy(migrated, home / "mlflow" / "mlflow.db")
    return crash(home, parameters, NEVER)


@pytest.mark.faults(
    "`kill -9` of the publisher after each of its calls to MLflow and the ledger, then run again",
    "one run, one version, one promotion, one retirement",
)
@pytest.mark.services
def test_after_a_kill_at_any_call_there_is_one_run_one_version_and_one_row(
    forked: list[str], migrated: Path, parameters: Path, tmp_path: Path, record_property: Callable[..., None]
) -> None:
    assert len(forked) > 20
    record_property("runs", len(forked))
    for calls in range(1, len(forked) + 1):
        home = tmp_path / str(calls)
        (home / "mlflow").mkdir(parents=True)
        shutil.copy(migrated, home / "mlflow" / "mlflow.db")
        _die_in_a_fork(home, parameters, calls)
        main(str(home), str(parameters), str(NEVER))
        _check_one_of_each(home, f"killed after call {calls}, {forked[calls - 1]}")


@pytest.mark.services
def test_another_process_completes_the_work_of_a_killed_one(
    forked: list[str], migrated: Path, parameters: Path, tmp_path: Path
) -> None:
    (tmp_path / "mlflow").mkdir()
    shutil.copy(migrated, tmp_path / "mlflow" / "mlflow.db")
    for calls in (forked.index("create_run") + 1, forked.index("create_model_version") + 1):
        crash(tmp_path, parameters, calls)
    crash(tmp_path, parameters, NEVER)
    _check_one_of_each(tmp_path, "three processes")


def _die_in_a_fork(home: Path, parameters: Path, calls: int) -> None:
    """Run in a fork, which saves the import of MLflow."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            main(str(home), str(parameters), str(calls))
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), f"call {calls} was never reached"
    assert os.WTERMSIG(status) == signal.SIGKILL


def _check_one_of_each(home: Path, when: str) -> None:
    registry = Registry.open(installation_in(home))
    client = registry.client
    experiment = client.get_experiment_by_name("slc-demo")
    runs = client.search_runs([experiment.experiment_id])
    versions = client.search_model_versions("name = 'slc-demo'")
    assert (len(runs), len(versions)) == (1, 1), when
    assert runs[0].info.status == "FINISHED", when
    for name in ("auc", "nll"):
        assert len(client.get_metric_history(runs[0].info.run_id, name)) == 1, when
    assert len(runs[0].inputs.dataset_inputs) == 1, when
    assert len(registry.ledger.versions("demo")) == 1, when
    assert [move.to_version for move in registry.history("demo")] == [1, None], when
    assert read_aliases(client, "demo") == {}, when
    assert client.get_registered_model("slc-demo").tags == {RETIRED_TAG: "2"}, when
    assert registry.verify("demo") == [], when
