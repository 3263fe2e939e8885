"""The MLflow client."""

import socket

import pytest

from slc_ops.base.errors import RegistryError
from slc_ops.base.mlflow_client import connect


def test_an_unreachable_database_is_reported_at_once_in_one_line() -> None:
    """MLflow itself would retry for almost two minutes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(RegistryError, match=rf"database at 127\.0\.0\.1:{port} does not answer") as refused:
        connect(f"postgresql://mlflow:secret@127.0.0.1:{port}/mlflow")
    assert "secret" not in str(refused.value)
