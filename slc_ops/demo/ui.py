"""``make ui``: the services of the embedded platform as children of one process.

Airflow's components run as separate processes, because ``airflow standalone`` leaves orphans on SIGTERM and
binds its log servers to all interfaces. Each has a process group, which ends with this process.
"""

import os
import secrets
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import click

from slc_ops.base.errors import SettingsError, SlcError
from slc_ops.base.files import read_json, write_text

START_TIMEOUT = 120.0
STOP_TIMEOUT = 15.0


def serve(home: Path, variables: dict[str, str], airflow_port: int, mlflow_port: int) -> None:
    """Start all services, print the addresses, wait for Ctrl-C, stop all services."""
    _require_free(airflow_port, "AIRFLOW_PORT")
    _require_free(mlflow_port, "MLFLOW_PORT")
    variables = variables | {
        "AIRFLOW__API__PORT": str(airflow_port),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{airflow_port}/execution/",
        "AIRFLOW__API_AUTH__JWT_SECRET": _secret(home),
        "SLC_OPS_MLFLOW_URL": f"http://127.0.0.1:{mlflow_port}",
    }
    tracking = variables["MLFLOW_TRACKING_URI"]
    commands = {
        "mlflow": ["mlflow", "server", "--host", "127.0.0.1", "--port", str(mlflow_port), "--workers", "1",
                   "--backend-store-uri", tracking,
                   "--default-artifact-root", (home / "mlflow" / "artifacts").as_uri()],
        "api-server": ["airflow", "api-server", "--host", "127.0.0.1", "--port", str(airflow_port)],
        "scheduler": ["airflow", "scheduler", "--skip-serve-logs"],
        "dag-processor": ["airflow", "dag-processor"],
        "triggerer": ["airflow", "triggerer", "--skip-serve-logs"],
    }  # fmt: skip
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # as Ctrl-C: KeyboardInterrupt
    children: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, command in commands.items():
            children[name] = _start(name, command, home, variables)
        click.echo("Starting Airflow and MLflow (about half a minute) …")
        _wait_for(f"http://127.0.0.1:{airflow_port}/api/v2/monitor/health", children, home)
        _wait_for(f"http://127.0.0.1:{mlflow_port}/health", children, home)
        user, password = _login(home)
        click.echo(f"Airflow  http://127.0.0.1:{airflow_port}   log in as {user} with password {password}")
        click.echo(f"MLflow   http://127.0.0.1:{mlflow_port}   no login, loopback only")
        click.echo("Ctrl-C stops both.")
        while True:
            _require_alive(children, home)
            time.sleep(0.5)
    except KeyboardInterrupt:
        click.echo("\nStopping …")
    finally:
        stop(children)


def _secret(home: Path) -> str:
    """Return the key that signs Airflow's tokens: random, created once, readable only by its owner."""
    path = home / "airflow" / "jwt_secret"
    if not path.exists():
        write_text(path, secrets.token_urlsafe(48))
    return path.read_text()


def _require_free(port: int, variable: str) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise SettingsError(
                f"port {port} is in use; stop the process that uses it "
                f"or choose another: make ui {variable}={port + 1}"
            ) from None


def _start(name: str, command: list[str], home: Path, variables: dict[str, str]) -> subprocess.Popen[bytes]:
    log = home / "airflow" / f"{name}.log"
    with log.open("wb") as stream:
        return subprocess.Popen(
            command,
            env=variables,
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _require_alive(children: dict[str, subprocess.Popen[bytes]], home: Path) -> None:
    for name, child in children.items():
        if child.poll() is not None:
            log = home / "airflow" / f"{name}.log"
            raise SlcError(f"{name} ended with code {child.returncode}; see {log}")


def _wait_for(url: str, children: dict[str, subprocess.Popen[bytes]], home: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        _require_alive(children, home)
        try:
            with urllib.request.urlopen(url, timeout=2):  # noqa: S310 - a loopback address of ours
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise SlcError(f"{url} did not answer within {START_TIMEOUT:.0f} s; the logs are in var/airflow/*.log")


def _login(home: Path) -> tuple[str, str]:
    path = home / "airflow" / "simple_auth_manager_passwords.json.generated"
    path.chmod(0o600)
    ((user, password),) = read_json(path).items()
    return str(user), str(password)


def stop(children: dict[str, subprocess.Popen[bytes]]) -> None:
    """Stop every child's process group: SIGTERM, then SIGKILL."""
    for sig in (signal.SIGTERM, signal.SIGKILL):
        for child in children.values():
            _signal(child, sig)
        deadline = time.monotonic() + STOP_TIMEOUT
        while time.monotonic() < deadline and any(_signal(child, 0) for child in children.values()):
            time.sleep(0.2)


def _signal(child: subprocess.Popen[bytes], number: int) -> bool:
    """Signal a child's process group (0: only look); return False if it has no process left."""
    child.poll()
    try:
        os.killpg(child.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True
