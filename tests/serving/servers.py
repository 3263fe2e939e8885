"""Real servers on loopback, started as processes and stopped by process group."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest


def free_port() -> int:
    """A port that was free when checked."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(command: list[str], ready: str, log: Path, env: Mapping[str, str] | None = None) -> Iterator[int]:
    """Run a command during a block; start once ``ready`` succeeds and yield the process id."""
    with log.open("wb") as output:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # MLflow calls uvicorn by its name
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PATH": path} | dict(env or {}),
            start_new_session=True,
        )
    try:
        _wait(process, ready, log)
        yield process.pid
    finally:
        stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Stop the process and its children."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(10)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
    process.wait(10)


def _wait(process: subprocess.Popen[bytes], address: str, log: Path, seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"it ended with {process.returncode}: {log.read_text()[-3000:]}")
        try:
            if httpx.get(address, timeout=2, trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise RuntimeError(f"not ready after {seconds} s: {log.read_text()[-3000:]}")


@contextmanager
def s3_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An S3-compatible server; sets the environment as for MLflow and yields a client."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "MLFLOW_S3_ENDPOINT_URL": f"http://{host}:{port}",
    }.items():
        monkeypatch.setenv(name, value)
    try:
        yield boto3.client("s3", endpoint_url=f"http://{host}:{port}")
    finally:
        server.stop()


@contextmanager
def mlflow_server(
    home: Path, backend: str, port: int | None = None, artifacts: str | None = None, *, proxy: bool = True
) -> Iterator[str]:
    """A tracking server that proxies artifacts, or (``proxy`` False) leaves them to clients."""
    port = port or free_port()
    home.mkdir(parents=True, exist_ok=True)
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--workers", "1"),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--backend-store-uri", backend),
        *(("--artifacts-destination",) if proxy else ("--no-serve-artifacts", "--default-artifact-root")),
        artifacts or str(home / "artifacts"),
    ]
    env = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    env["MLFLOW_TRACKING_URI"] = ""
    address = f"http://127.0.0.1:{port}"
    with running(command, f"{address}/health", home / "server.log", env):
        yield address


@contextmanager
def model_server(home: Path, tracking_uri: str, model: str) -> Iterator[str]:
    """``mlflow models serve`` of a registered model."""
    port = free_port()
    command = [
        *(sys.executable, "-m", "mlflow", "models", "serve", "-m", model, "--env-manager", "local"),
        *("--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
    ]
    env = {
        "MLFLOW_TRACKING_URI": tracking_uri,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "False",
    }
    address = f"http://127.0.0.1:{port}"
    with running(command, f"{address}/ping", home / "model.log", env):
        yield address
