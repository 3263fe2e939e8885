"""A home before its first refresh and after undisturbed refreshes; each test gets a restored copy."""

import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slc_ops.base.mlflow_client import connect
from slc_ops.demo.simulate import simulate
from tests.faults.homes import (
    BEFORE,
    NEWEST,
    REFRESH,
    findings,
    installation_of,
    parameter_bytes,
    put_back,
    run,
)
from tests.refresh.school import configure


@dataclass(frozen=True)
class Undisturbed:
    """A home after an undisturbed refresh."""

    kept: Path
    seconds: float
    parameters: dict[str, str]
    findings: dict[str, Any]


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of every home, one after the other."""
    return tmp_path_factory.mktemp("faults") / "home"


@pytest.fixture(scope="session")
def fresh(place: Path) -> Path:
    """A home with rows, settings and an empty MLflow database."""
    home = place.with_name("fresh")
    simulate(home / "lake" / "school", weeks=7, users=300, items=60, seed=11, start="2026-01-05")
    (home / "mlflow").mkdir()
    connect(f"sqlite:///{home}/mlflow/mlflow.db", create=True).search_experiments()
    configure(installation_of(home))
    return home


@pytest.fixture(scope="session")
def undisturbed(fresh: Path, place: Path) -> Undisturbed:
    """The newest week after an undisturbed refresh."""
    return refreshed(fresh, place, NEWEST, "undisturbed")


@pytest.fixture(scope="session")
def week_before(fresh: Path, place: Path) -> Undisturbed:
    """The week before the newest after an undisturbed refresh."""
    return refreshed(fresh, place, BEFORE, "before")


@pytest.fixture(scope="session")
def week_after(week_before: Undisturbed, place: Path) -> Undisturbed:
    """The newest week, refreshed undisturbed after the week before."""
    return refreshed(week_before.kept, place, NEWEST, "after")


def refreshed(kept: Path, place: Path, window: Any, name: str) -> Undisturbed:
    """Refresh a week and store a copy of the home under a name."""
    home = put_back(kept, place)
    begun = time.perf_counter()
    done = run(home, *REFRESH, str(window))
    seconds = time.perf_counter() - begun
    assert done.code == 0, done.err
    found = Undisturbed(place.with_name(name), seconds, parameter_bytes(home, window), findings(home, window))
    shutil.copytree(home, found.kept)
    return found


@pytest.fixture
def home(request: pytest.FixtureRequest, fresh: Path, place: Path) -> Path:
    """A fresh home; fixtures that refresh one run first."""
    for name in {"undisturbed", "week_before", "week_after"} & set(request.fixturenames):
        request.getfixturevalue(name)
    return put_back(fresh, place)
