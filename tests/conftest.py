"""One temporary home for the test session, set before heavy imports."""

import gc
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from slc_ops.settings.environment import Installation

_HOME: Path

for _name in [
    n for n in os.environ if n.startswith(("AIRFLOW", "MLFLOW_", "SLC_OPS_")) and n != "SLC_OPS_TEST_DATA"
]:
    del os.environ[_name]
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.update(
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__CORE__DAGS_FOLDER=str(Path(__file__).parent.parent / "dags"),
    SLC_OPS_DEPLOYMENTS=str(Path(__file__).parent.parent / "dags" / "deployments.yaml"),
    MLFLOW_DISABLE_TELEMETRY="true",
    DO_NOT_TRACK="true",
    GX_ANALYTICS_ENABLED="false",
    MPLBACKEND="Agg",
)


# The libraries have many objects, and the collector visits them often.
gc.set_threshold(20_000, 20, 20)


def use_new_home() -> None:
    """Make an empty home for this process; a fork that runs tests of its own calls it again."""
    global _HOME  # noqa: PLW0603 - one per process
    _HOME = Path(tempfile.mkdtemp(prefix="slc-ops-tests-"))
    os.environ.update(
        AIRFLOW_HOME=str(_HOME / "airflow"),
        SLC_OPS_HOME=str(_HOME),
        MLFLOW_TRACKING_URI=f"sqlite:///{_HOME}/mlflow.db",
    )


use_new_home()

_OF_AN_EMPTY_AIRFLOW = ("alembic_version", "log_template", "slot_pool", "connection")


# The same examples every time, for repeatable runs. HYPOTHESIS_PROFILE=default searches for new ones.
settings.register_profile("same", derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run files that wait for servers first and large inputs next, so that no core is idle at the end."""
    ranks: dict[Path, int] = {}
    for item in items:
        own = [rank for rank, name in enumerate(("services", "slow")) if item.get_closest_marker(name)]
        ranks[item.path] = min([*own, ranks.get(item.path, 2)])
    items.sort(key=lambda item: ranks[item.path])


@pytest.fixture(scope="session", autouse=True)
def _no_trace() -> Iterator[None]:
    yield
    shutil.rmtree(_HOME, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def _one_migration_of_mlflow() -> Iterator[None]:
    """Migrate MLflow's SQLite schema once per process, then copy it: its migrations take a second of CPU.

    Each new client of a database would also load all migrations to find the newest, and each new model would
    compare its requirements with the packages that they are taken from.
    """
    from slc_ops.base import mlflow_client

    migrate, load = mlflow_client._fill, mlflow_client.load_mlflow
    template = _HOME / "template" / "mlflow.db"
    template.parent.mkdir()

    def copy(path: Path) -> None:
        if not template.exists():
            migrate(template)
        shutil.copyfile(template, path)
        with closing(sqlite3.connect(path)) as database, database:
            place = (path.parent / "artifacts").absolute().as_uri()
            database.execute("UPDATE experiments SET artifact_location = ? || '/0'", (place,))

    def load_and_patch() -> None:
        load()
        from mlflow.store.db import utils

        if not hasattr(utils._get_latest_schema_revision, "cache_info"):
            patch.setattr(utils, "_get_latest_schema_revision", cache(utils._get_latest_schema_revision))
            patch.setattr("mlflow.utils.environment.warn_dependency_requirement_mismatches", lambda _: None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mlflow_client, "_fill", copy)
        patch.setattr(mlflow_client, "load_mlflow", load_and_patch)
        yield


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven weeks of a small platform."""
    from slc_ops.demo.simulate import simulate

    out = tmp_path_factory.mktemp("lake")
    simulate(out, weeks=7, users=300, items=60, seed=11, start="2026-01-05")
    return out


@pytest.fixture(scope="session")
def operated(lake: Path, tmp_path_factory: pytest.TempPathFactory) -> "Installation":
    """A home after two refreshes; a test that changes it makes a copy."""
    from tests.refresh.school import operate

    return operate(tmp_path_factory.mktemp("operated"), lake)


@pytest.fixture(scope="session")
def stopped(operated: "Installation", tmp_path_factory: pytest.TempPathFactory) -> "Installation":
    """The same, after validation stopped the third week."""
    from tests.refresh.school import copy_of, stop_newest

    found = copy_of(operated, tmp_path_factory.mktemp("stopped"))
    stop_newest(found)
    return found


@pytest.fixture(scope="session")
def metadata() -> None:
    """Airflow's own database, once per process."""
    from airflow.utils.db import initdb

    initdb()


@pytest.fixture(scope="module", autouse=True)
def _no_runs_of_another_file() -> Iterator[None]:
    """Empty Airflow's database after each file, so that tests do not depend on earlier files."""
    yield
    database = _HOME / "airflow" / "airflow.db"
    if not database.exists():
        return
    with closing(sqlite3.connect(database, timeout=60)) as connection, connection:
        tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        for (table,) in connection.execute(tables).fetchall():
            if not table.startswith(_OF_AN_EMPTY_AIRFLOW):
                connection.execute(f'DELETE FROM "{table}"')  # noqa: S608 - a name from the database itself
