"""The only access to MLflow's Python client: telemetry off, explicit addresses, no global state."""

import logging
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from slc_ops.base.addresses import sqlite_file
from slc_ops.base.errors import RegistryError
from slc_ops.base.locks import create_once

if TYPE_CHECKING:
    from mlflow import MlflowClient


def quiet_mlflow() -> None:
    """Set the variables that MLflow reads on import; call before ``import mlflow``.

    Telemetry is always off. These defaults apply unless the operator sets the variable: no progress bars,
    migration notes or addresses on stdout, which may carry JSON; requests time out after 30 s with two
    retries (MLflow: 120 s and seven), which leaves time to store a large set. MLflow's log records go through
    our logging, with deployment and window, instead of to stderr.
    """
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    os.environ.setdefault("MLFLOW_CONFIGURE_LOGGING", "false")
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(os.environ["MLFLOW_LOGGING_LEVEL"])
    logging.getLogger("mlflow.utils.environment").setLevel("ERROR")  # it warns when pip is absent
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", "1")


def load_mlflow() -> None:
    """Import MLflow with :func:`quiet_mlflow`; call before importing a part of it."""
    quiet_mlflow()
    import mlflow  # noqa: F401 - to have it loaded


def connect(tracking_uri: str, *, create: bool = False, registry_uri: str | None = None) -> "MlflowClient":
    """Return a client for tracking and registry, at one address or, with ``registry_uri``, at two.

    With ``create`` a missing SQLite database is created; without it, a missing database raises
    :class:`~slc_ops.base.errors.RegistryError`, because MLflow would silently create an empty one.
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
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=tracking_uri, registry_uri=registry_uri)


def _require_listener(tracking_uri: str) -> None:
    """Fail at once when nothing listens: MLflow retries a database connection for almost two minutes."""
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
    """Create MLflow's SQLite database unless it exists, atomically and by one process only.

    MLflow's first use runs a hundred migrations and commits each separately. Concurrent processes, or one
    that is killed, would leave a database that cannot be opened.
    """
    create_once(path, _fill)


def _fill(path: Path) -> None:
    load_mlflow()
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    store = SqlAlchemyStore(f"sqlite:///{path}", (path.parent / "artifacts").absolute().as_uri())
    store.engine.dispose()
