"""An installation on loopback: real servers, and the services of docker-compose.yaml without Docker."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from slc_ops.production.compose import read_env_file, read_service
from slc_ops.production.health import unhealthy_reason
from tests.production import servers

ROOT = Path(__file__).parent.parent.parent
PRODUCTION = [sys.executable, "-m", "slc_ops.production"]
DEPLOYMENTS = """\
deployments:
  demo:
    source: {kind: lake, path: lake/demo}
    methods: [base, platt_eb, slc]
    link_windows: 2
    offset_windows: 2
    evidence_windows: 2
    start: 2026-01-05
    end: 2026-02-09
    gate: auto
  asked:
    source: {kind: lake, path: lake/demo}
    methods: [base, platt_eb, slc]
    link_windows: 2
    offset_windows: 2
    evidence_windows: 2
    start: 2026-01-05
    end: 2026-02-09
    gate: manual
"""
SERVICES = {
    "mlflow": "mlflow",
    "airflow-apiserver": "api-server",
    "airflow-scheduler": "scheduler",
    "airflow-dag-processor": "dag-processor",
    "airflow-triggerer": "triggerer",
    "metrics": "metrics",
}
"""Services that stay, and what their health checks call them; the workers have names of their own."""
WORKERS = (socket.gethostname(), "another-host")
"""Two workers; the first is called as Celery would call it."""
DAG = "slc_weekly_refresh__demo"


@dataclass
class Installation:
    """The settings and processes of an installation."""

    directory: Path
    settings: dict[str, str]
    programs: Path
    stack: ExitStack
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    token: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """The environment of our commands, without the settings of the tests."""
        foreign = ("AIRFLOW", "MLFLOW_", "SLC_OPS_", "AWS_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        return kept | {
            "PATH": f"{Path(sys.executable).parent}:{self.programs}:{kept.get('PATH', '')}",
            "PYTHONPATH": str(ROOT),
            "SLC_OPS_ENV_FILE": str(self.directory / "env"),
        }

    def start(
        self, service: str, *arguments: str, label: str | None = None, **settings: str
    ) -> "subprocess.Popen[bytes]":
        """Start a service as in docs/installation.md; ``settings`` apply to this one only."""
        label = label or service
        env_file = self.directory / f"env.{label}"
        lines = [f"{name}={value}\n" for name, value in (self.settings | settings).items()]
        env_file.write_text("".join(lines))
        process = self.stack.enter_context(
            servers.running(
                [*PRODUCTION, "service", service, *arguments],
                self.directory / f"{label}.log",
                cwd=ROOT,
                env=self.environment | {"SLC_OPS_ENV_FILE": str(env_file)},
            )
        )
        self.processes[label] = process
        return process

    def stop(self) -> None:
        """Stop all services."""
        servers.stop_groups(self.processes.values())
        self.processes.clear()

    def run(self, *command: str, timeout: float = 240) -> "subprocess.CompletedProcess[str]":
        """Run one of the commands to its end."""
        return subprocess.run(
            [*PRODUCTION, *command],
            cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip

    def succeed(self, *command: str, timeout: float = 240) -> str:
        """Like :meth:`run`, but the command must succeed."""
        result = self.run(*command, timeout=timeout)
        assert result.returncode == 0, f"{command}\n{result.stdout[-4000:]}\n{result.stderr[-4000:]}"
        return result.stdout

    def shell(self, script: str, **variables: str) -> str:
        """Run a block of docs/runbooks.md as PostgreSQL's administrator."""
        host, _, port = self.settings["POSTGRES_ADDRESS"].partition(":")
        password = self.settings["POSTGRES_PASSWORD"]
        administrator = {"PGHOST": host, "PGPORT": port, "PGUSER": "postgres", "PGPASSWORD": password}
        result = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=ROOT, env=self.environment | administrator | variables,
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert result.returncode == 0, f"{script}\n{result.stdout[-4000:]}\n{result.stderr[-4000:]}"
        return result.stdout

    def log(self, label: str) -> str:
        """The log of a service so far."""
        return (self.directory / f"{label}.log").read_text(errors="replace")

    def url(self, service: str, path: str) -> str:
        """An address of the service ``airflow``, ``mlflow`` or ``metrics``."""
        port = self.settings["METRICS_LISTEN_PORT"]
        address = f"127.0.0.1:{port}" if service == "metrics" else self.settings[f"{service.upper()}_ADDRESS"]
        return f"http://{address}{path}"

    def airflow(self, method: str, path: str, **body: Any) -> Any:
        """Call Airflow's API as its administrator."""
        if not self.token:
            login = {"username": "admin", "password": self.settings["AIRFLOW_ADMIN_PASSWORD"]}
            answer = httpx.post(self.url("airflow", "/auth/token"), json=login, timeout=60)
            self.token = answer.raise_for_status().json()["access_token"]
        answer = httpx.request(
            method,
            self.url("airflow", f"/api/v2{path}"),
            headers={"Authorization": f"Bearer {self.token}"},
            json=body or None,
            timeout=60,
        )
        return answer.raise_for_status().json()

    def runs(self) -> list[Any]:
        """The runs in MLflow."""
        user = ("slc-ops", self.settings["MLFLOW_SERVICE_PASSWORD"])
        base = self.url("mlflow", "/api/2.0/mlflow")
        found = httpx.post(f"{base}/experiments/search", json={"max_results": 100}, auth=user, timeout=60)
        ids = [each["experiment_id"] for each in found.raise_for_status().json()["experiments"]]
        answer = httpx.post(f"{base}/runs/search", json={"experiment_ids": ids}, auth=user, timeout=60)
        return list(answer.raise_for_status().json().get("runs", []))

    def variables(self, service: str) -> dict[str, str]:
        """The environment variables of a service."""
        return read_service(ROOT / "docker-compose.yaml", service, self.settings).environment

    def healthy(self, service: str) -> bool:
        """The result of the service's health check, run in this process to save time."""
        reason = unhealthy_reason(SERVICES[service], self.variables(service))
        if reason:
            raise RuntimeError(reason)
        return True

    def wait(self, what: Any, seconds: float, name: str) -> Any:
        """Wait for a condition, unless a service ends meanwhile; return its value."""

        def asked() -> object:
            for label, process in self.processes.items():
                if process.poll() is not None:
                    pytest.fail(f"{label} ended with {process.returncode}:\n{self.log(label)[-3000:]}")
            return what()

        return servers.wait_until(asked, seconds, name)

    def listeners(self) -> dict[str, set[str]]:
        """Every address that a process of ours listens on, by service."""
        found: dict[str, set[str]] = {}
        for label, process in self.processes.items():
            leader = psutil.Process(process.pid)
            for each in [leader, *leader.children(recursive=True)]:
                for connection in each.net_connections(kind="inet"):
                    if connection.status == psutil.CONN_LISTEN:
                        found.setdefault(label, set()).add(connection.laddr.ip)
        return found

    def kill(self, label: str) -> None:
        """Kill all processes of a service at once, as when a machine fails."""
        process = self.processes.pop(label)
        leader = psutil.Process(process.pid)
        for each in [leader, *leader.children(recursive=True)]:
            each.kill()
        process.wait()


@contextmanager
def servers_up(directory: Path) -> Iterator[Installation]:
    """PostgreSQL, Redis, the S3 store and a fresh set of secrets, without services."""
    with ExitStack() as stack:
        subprocess.run(
            [str(ROOT / "scripts" / "make_env.sh"), str(directory / "env")], check=True, capture_output=True
        )
        settings = read_env_file(directory / "env")
        port, programs = stack.enter_context(servers.postgres(settings["POSTGRES_PASSWORD"]))
        airflow, mlflow, metrics = servers.free_port(), servers.free_port(), servers.free_port()
        redis = stack.enter_context(servers.redis(settings["REDIS_PASSWORD"], directory))
        objects = stack.enter_context(servers.objects(directory))
        (directory / "deployments.yaml").write_text(DEPLOYMENTS)
        addresses = {
            "POSTGRES_ADDRESS": f"127.0.0.1:{port}",
            "REDIS_ADDRESS": f"127.0.0.1:{redis}",
            "S3_ENDPOINT_URL": f"http://127.0.0.1:{objects}",
            "AIRFLOW_ADDRESS": f"127.0.0.1:{airflow}",
            "AIRFLOW_LISTEN_PORT": str(airflow),
            "MLFLOW_ADDRESS": f"127.0.0.1:{mlflow}",
            "MLFLOW_LISTEN_PORT": str(mlflow),
            "METRICS_LISTEN_PORT": str(metrics),
            "SLC_OPS_HOME": str(directory / "home"),
            "DEPLOYMENTS_FILE": str(directory / "deployments.yaml"),
            "SLC_OPS_MIN_FREE_MB": "64",
            "MLFLOW_WORKERS": "1",
            "WORKER_CONCURRENCY": "1",
            "AIRFLOW_PARALLELISM": "4",
            "DAG_REFRESH_SECONDS": "5",
            "TASK_HEARTBEAT_TIMEOUT": "15",
        }
        with (directory / "env").open("a") as stream:
            stream.writelines(f"{name}={value}\n" for name, value in addresses.items())
        installation = Installation(directory, settings | addresses, programs, stack)
        try:
            yield installation
        finally:
            installation.stop()
