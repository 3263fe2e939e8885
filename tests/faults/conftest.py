"""A home before its first refresh, and what an undisturbed refresh makes of it."""

import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slc_ops.base.mlflow_client import connect
from slc_ops.intake.simulate import simulate
from tests.faults.homes import (
    BEFORE,
    NEWEST,
    REFRESH,
    copy_home,
    findings,
    parameter_bytes,
    places_of,
    run,
)
from tests.refresh.school import configure


@dataclass(frozen=True)
class Undisturbed:
    """A refresh that nothing happened to."""

    home: Path
    seconds: float
    parameters: dict[str, str]
    findings: dict[str, Any]


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with rows, settings and an empty MLflow database."""
    home = tmp_path_factory.mktemp("fresh") / "home"
    simulate(home / "lake" / "school", weeks=7, users=300, items=60, seed=11, start="2026-01-05")
    (home / "mlflow").mkdir()
    connect(f"sqlite:///{home}/mlflow/mlflow.db", create=True).search_experiments()
    configure(places_of(home))
    return home


@pytest.fixture(scope="session")
def undisturbed(fresh: Path, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """The newest week, refreshed in peace."""
    home = copy_home(fresh, tmp_path_factory.mktemp("undisturbed") / "home")
    begun = time.perf_counter()
    done = run(home, *REFRESH, str(NEWEST))
    assert done.code == 0, done.err
    return Undisturbed(home, time.perf_counter() - begun, parameter_bytes(home), findings(home))


@pytest.fixture(scope="session")
def week_before(fresh: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose week before the newest was refreshed."""
    home = copy_home(fresh, tmp_path_factory.mktemp("before") / "home")
    done = run(home, *REFRESH, str(BEFORE))
    assert done.code == 0, done.err
    return home


@pytest.fixture(scope="session")
def week_after(week_before: Path, tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    """The newest week, refreshed in peace after the week before."""
    home = copy_home(week_before, tmp_path_factory.mktemp("after") / "home")
    done = run(home, *REFRESH, str(NEWEST))
    assert done.code == 0, done.err
    return Undisturbed(home, 0.0, parameter_bytes(home), findings(home))


@pytest.fixture
def home(fresh: Path, tmp_path: Path) -> Path:
    """A fresh home of one's own."""
    return copy_home(fresh, tmp_path / "home")


@pytest.fixture(autouse=True)
def room(tmp_path: Path) -> Any:
    """Homes are large; what a test leaves goes with it."""
    yield
    shutil.rmtree(tmp_path, ignore_errors=True)
