"""A real Airflow on loopback: API server, scheduler, DAG processor and triggerer as separate processes."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from slc_ops.base.files import read_json
from slc_ops.demo.run import environment
from slc_ops.registry import Registry
from slc_ops.settings.environment import Installation

SERVICES = {
    "api-server": ["airflow", "api-server", "--host", "127.0.0.1"],
    "scheduler": ["airflow", "scheduler", "--skip-serve-logs"],
    "dag-processor": ["airflow", "dag-processor"],
    "triggerer": ["airflow", "triggerer", "--skip-serve-logs"],
}
QUICK = {  # the scheduler's default of five minutes is too long for a test
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",
    # No DAG file changes while the tests run, and parsing one takes seconds of CPU.
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "10",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "20",
}


class Platform:
    """The processes and a client of the REST API, under a path prefix as behind a shared proxy."""

    prefix = "/air"

    def __init__(self, home: Path, database: str, **further: str) -> None:
        self.home = home
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}{self.prefix}"
        self.variables = (
            environment(home)
            | QUICK
            | {
                "SLC_OPS_DEPLOYMENTS": str(home / "deployments.yaml"),
                "AIRFLOW__CORE__DAGS_FOLDER": str(home / "dags"),
                "AIRFLOW__API__BASE_URL": self.address,
                "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database.replace(
                    "postgresql:", "postgresql+psycopg:", 1
                ),
                "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": database.replace(
                    "postgresql:", "postgresql+psycopg_async:", 1
                ),
                "AIRFLOW__API__PORT": str(self.port),
                "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
                "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.address}/execution/",
                "AIRFLOW__API_AUTH__JWT_SECRET": os.urandom(48).hex(),
            }
            | further
        )
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.token = ""

    def prepare(self) -> None:
        """Create Airflow's and MLflow's tables, so that the first tasks do not create them concurrently."""
        making = subprocess.Popen(
            ["airflow", "db", "migrate"],
            env=self.variables,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        self.registry.client.search_experiments()
        _, said = making.communicate()
        assert making.returncode == 0, said.decode()[-3000:]

    def start(self, *names: str) -> None:
        """Start services (all of them by default), each in its own process group, and wait for the API."""
        for name in names or SERVICES:
            with (self.home / f"{name}.log").open("ab") as log:
                self.processes[name] = subprocess.Popen(
                    [*SERVICES[name], *(["--port", str(self.port)] if name == "api-server" else [])],
                    env=self.variables, cwd=self.home, stdin=subprocess.DEVNULL, stdout=log,
                    stderr=subprocess.STDOUT, start_new_session=True,
                )  # fmt: skip
        self.until(self.healthy, "Airflow to be healthy", 240)
        self.log_in()

    def healthy(self) -> bool:
        """Whether API server, scheduler and DAG processor report that they are healthy."""
        for name, process in self.processes.items():
            assert process.poll() is None, f"{name} ended: {(self.home / f'{name}.log').read_text()[-3000:]}"
        try:
            found = httpx.get(f"{self.address}/api/v2/monitor/health", timeout=5).json()
        except (httpx.HTTPError, ValueError):
            return False
        return all(found[part]["status"] == "healthy" for part in ("scheduler", "dag_processor"))

    @property
    def password(self) -> str:
        """The password that Airflow generated for its admin."""
        return self.password_of("admin")

    def password_of(self, user: str) -> str:
        """The password that Airflow generated for a user."""
        return str(read_json(self.home / "airflow" / "simple_auth_manager_passwords.json.generated")[user])

    @property
    def registry(self) -> Registry:
        """The registry that the tasks use."""
        with pytest.MonkeyPatch.context() as patch:
            for name in ("SLC_OPS_HOME", "SLC_OPS_DEPLOYMENTS", "MLFLOW_TRACKING_URI"):
                patch.setenv(name, self.variables[name])
            return Registry.open(Installation.from_environment())

    def log_in(self) -> None:
        """Get a token."""
        self.token = self.token_of("admin")

    def token_of(self, user: str) -> str:
        """A user's token."""
        asked = {"username": user, "password": self.password_of(user)}
        answer = httpx.post(f"{self.address}/auth/token", json=asked, timeout=60)
        assert answer.is_success, f"{user} cannot log in: {answer.status_code} {answer.text[:500]}"
        return str(answer.json()["access_token"])

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Call the REST API as the admin and return the JSON."""
        answer = self.request(method, path, body, self.token)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text[:500]}"
        return answer.json()

    def request(self, method: str, path: str, body: Any, token: str) -> httpx.Response:
        """Call the REST API as any user and return the response, whatever its status."""
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.request(method, f"{self.address}{path}", json=body, headers=headers, timeout=60)

    def unpause(self, dag: str) -> None:
        """Wait until Airflow has loaded the DAG, then unpause it."""
        self.until(
            lambda: dag in {d["dag_id"] for d in self.call("GET", "/api/v2/dags?limit=100")["dags"]}, dag
        )
        self.call("PATCH", f"/api/v2/dags/{dag}", {"is_paused": False})

    def trigger(self, dag: str, **conf: Any) -> str:
        """Start a manual run without a logical date."""
        answer = self.call("POST", f"/api/v2/dags/{dag}/dagRuns", {"logical_date": None, "conf": conf})
        return str(answer["dag_run_id"])

    def runs(self, dag: str, kind: str) -> list[str]:
        """The ids of the runs of one type."""
        found = self.call("GET", f"/api/v2/dags/{dag}/dagRuns?run_type={kind}&limit=100")["dag_runs"]
        return [str(run["dag_run_id"]) for run in found]

    def run(self, dag: str, run: str) -> dict[str, Any]:
        """One run, as the API reports it."""
        found: dict[str, Any] = self.call("GET", f"/api/v2/dags/{dag}/dagRuns/{quote(run)}")
        return found

    def span(self, dag: str, run: str) -> tuple[datetime, datetime]:
        """When a finished run began and ended."""
        found = self.run(dag, run)
        return datetime.fromisoformat(found["start_date"]), datetime.fromisoformat(found["end_date"])

    def tasks(self, dag: str, run: str) -> dict[str, str | None]:
        """Task → state, of one run; mapped ones as ``task[index]``."""
        path = f"/api/v2/dags/{dag}/dagRuns/{quote(run)}/taskInstances?limit=100"
        return {
            t["task_id"] if t["map_index"] < 0 else f"{t['task_id']}[{t['map_index']}]": t["state"]
            for t in self.call("GET", path)["task_instances"]
        }

    def finished(self, dag: str, run: str, seconds: float = 900) -> dict[str, str | None]:
        """Wait until a run ends; it must succeed."""

        def over() -> bool:
            state = self.run(dag, run)["state"]
            assert state != "failed", f"{dag} {run} failed: {self.tasks(dag, run)}"
            return bool(state == "success")

        self.until(over, f"{dag} {run}", seconds)
        return self.tasks(dag, run)

    def kill(self, name: str) -> None:
        """Kill a service and all its child processes with SIGKILL."""
        process = self.processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """Stop every process group, first with SIGTERM, then with SIGKILL."""
        for sig in (signal.SIGTERM, signal.SIGKILL):
            for process in self.processes.values():
                try:
                    os.killpg(process.pid, sig)
                except ProcessLookupError:
                    continue
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline and any(p.poll() is None for p in self.processes.values()):
                time.sleep(0.2)

    @staticmethod
    def until(condition: Callable[[], Any], what: str, seconds: float = 240) -> Any:
        """Poll a condition; the test fails if it stays false."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if value := condition():
                return value
            time.sleep(1)
        raise AssertionError(f"waited {seconds:.0f} s for {what}")
