"""The one door to MLflow's Python client: telemetry off, every address named, nothing global changed."""

import gc
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from slc_ops.base.addresses import sqlite_file
from slc_ops.base.errors import RegistryError
from slc_ops.base.locks import create_once

if TYPE_CHECKING:
    from mlflow import MlflowClient

_loaded: set[str] = set()


def quiet_mlflow() -> None:
    """Set what MLflow reads when it is imported; call before ``import mlflow``.

    No telemetry, ever. Unless the operator says otherwise: no progress bars, migration notes and addresses on
    stdout, where JSON may be expected; and a server that hangs is given up after three tries of half a minute
    (MLflow's own patience is eight tries of two minutes), which leaves time to store a large set.

    What MLflow has to say goes where our own lines go, with deployment and window, instead of to stderr.
    """
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("MLFLOW_CONFIGURE_LOGGING", "false")
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(os.environ["MLFLOW_LOGGING_LEVEL"])
    logging.getLogger("mlflow.utils.environment").setLevel("ERROR")  # an environment without pip is no news
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "1")


def load_mlflow() -> None:
    """Import MLflow, quietly. Whoever needs a part of it calls this first."""
    quiet_mlflow()
    with _imported_once("mlflow"):
        import mlflow  # noqa: F401 - to have it loaded


def connect(tracking_uri: str, *, create: bool = False, registry_uri: str | None = None) -> "MlflowClient":
    """A client for tracking and registry, at one address or, with ``registry_uri``, at two.

    An SQLite database that does not exist is made with ``create``; without it, it is a
    :class:`~slc_ops.base.errors.RegistryError`: MLflow itself would make an empty one wherever it is sent.
    """
    registry_uri = registry_uri or tracking_uri
    for uri in dict.fromkeys((tracking_uri, registry_uri)):
        _require_listener(uri)
        load_mlflow()
        database = sqlite_file(uri)
        if database is not None and create:
            create_database(database)
        elif database is not None and not (database.is_file() and database.stat().st_size):
            raise RegistryError(
                f"there is no MLflow database {database.absolute()}; looked there because of "
                "MLFLOW_TRACKING_URI or MLFLOW_REGISTRY_URI, or SLC_OPS_HOME without them"
            )
    with _imported_once("client"):  # the first client of a database imports as much again
        from mlflow import MlflowClient

        return MlflowClient(tracking_uri=tracking_uri, registry_uri=registry_uri)


def _require_listener(tracking_uri: str) -> None:
    """Give up at once where nothing listens: MLflow itself asks a database for almost two minutes."""
    address = urlsplit(tracking_uri)
    if not address.scheme.startswith("postgres") or not address.hostname:
        return
    port = address.port or 5432
    try:
        socket.create_connection((address.hostname, port), timeout=10).close()
    except OSError as error:
        raise RegistryError(
            f"MLflow's database at {address.hostname}:{port} does not answer ({error.strerror or error}); "
            "start it, or correct MLFLOW_TRACKING_URI"
        ) from None


def create_database(path: Path) -> None:
    """Make MLflow's SQLite database unless it exists: whole or not at all, by one process of many.

    MLflow's own first use takes a hundred migrations, each committed for itself; processes that do it at the
    same time, or one that is killed on the way, leave a database that nobody can open any more.
    """
    create_once(path, _fill)


def _fill(path: Path) -> None:
    load_mlflow()
    with _imported_once("client"):
        from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

        store = SqlAlchemyStore(f"sqlite:///{path}", (path.parent / "artifacts").absolute().as_uri())
    store.engine.dispose()


@contextmanager
def _imported_once(part: str) -> Iterator[None]:
    """What MLflow imports lives as long as the process, so the garbage collector need not look at it.

    Looking takes a fifth of the import's three seconds, and another second when the process ends: a third of
    what ``slc-ops rollback`` takes. Only the first time: a server that connects often must collect.
    """
    if part in _loaded:
        yield
        return
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        _loaded.add(part)
        gc.freeze()
        if enabled:
            gc.enable()
