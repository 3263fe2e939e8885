"""One installation for all tests of this folder: starting one takes a minute."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.production.installation import DAG, SERVICES, WORKERS, Installation, servers_up

WINDOW = "2026-02-02/2026-02-09"


class Collector(HTTPServer):
    """An OpenTelemetry collector that keeps the received metrics."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.received: list[bytes] = []


class Receiver(BaseHTTPRequestHandler):
    """Accept a batch of metrics."""

    server: Collector

    def do_POST(self) -> None:
        self.server.received.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    """The address to which Airflow sends its metrics."""
    with Collector() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def statsd() -> Iterator[socket.socket]:
    """A StatsD server: a UDP socket."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(60)
        yield server


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """PostgreSQL, Redis, the S3 store and fresh secrets, as for a new operator."""
    with servers_up(tmp_path_factory.mktemp("installation")) as installation:
        yield installation


@pytest.fixture(scope="module")
def initialised(servers: Installation) -> Installation:
    """The same, after ``init``."""
    servers.succeed("service", "init")
    return servers


@pytest.fixture(scope="module")
def installation(initialised: Installation, collector: Collector, statsd: socket.socket) -> Installation:
    """Every service, two workers among them."""
    from slc_ops.demo.simulate import simulate

    endpoint = f"http://127.0.0.1:{collector.server_port}/v1/metrics"
    host, port = statsd.getsockname()
    reported = {  # one service each: a service sends to OpenTelemetry or to StatsD
        "airflow-scheduler": {"OTEL_ON": "True", "OTEL_METRICS_ENDPOINT": endpoint},
        "airflow-dag-processor": {"STATSD_ON": "True", "STATSD_HOST": host, "STATSD_PORT": str(port)},
    }
    for service in SERVICES:
        initialised.start(service, **reported.get(service, {}))
    for worker in WORKERS:
        initialised.start("airflow-worker", "--celery-hostname", worker, label=worker)
    lake = Path(initialised.settings["SLC_OPS_HOME"]) / "lake" / "demo"
    simulate(lake, weeks=5, start="2026-01-05", users=400, items=60)
    for service in SERVICES:
        initialised.wait(lambda s=service: initialised.healthy(s), 300, service)
    for worker in WORKERS:
        initialised.wait(lambda w=worker: f"celery@{w} ready" in initialised.log(w), 300, worker)
    initialised.wait(lambda: initialised.airflow("GET", f"/dags/{DAG}"), 120, "the DAG")
    return initialised


@pytest.fixture(scope="module")
def refreshed(installation: Installation) -> dict[str, Any]:
    """One refresh of the demo through two workers, one of which dies while it publishes.

    Answers which worker died, and the tries of every task.
    """
    installation.airflow("PATCH", f"/dags/{DAG}", is_paused=False)
    run = installation.airflow("POST", f"/dags/{DAG}/dagRuns", logical_date="2026-02-09T00:00:01Z")
    path = f"/dags/{DAG}/dagRuns/{run['dag_run_id']}"
    victim = installation.wait(lambda: publishing(installation), 300, "the publication")
    installation.kill(victim)

    def finished() -> bool:
        state = installation.airflow("GET", path)["state"]
        if state == "failed":
            pytest.fail(str(installation.airflow("GET", f"{path}/taskInstances")))
        return bool(state == "success")

    installation.wait(finished, 300, "the refresh")
    instances = installation.airflow("GET", f"{path}/taskInstances")["task_instances"]
    return {"victim": victim, "tries": {each["task_id"]: each["try_number"] for each in instances}}


def publishing(installation: Installation) -> str | None:
    """The worker that is publishing: MLflow has its run, and the task has not ended."""
    if not installation.runs():
        return None
    return next((w for w in WORKERS if "task_id='publish'" in installation.log(w)), None)


@pytest.fixture(scope="module")
def champion(installation: Installation, refreshed: dict[str, Any]) -> dict[str, Any]:
    """The version promoted by the surviving worker; returns ``slc-ops status``."""
    answer = installation.succeed("exec", "airflow-worker", "slc-ops", "status", "--json", "-")
    status: dict[str, Any] = json.loads(answer)["deployments"]["demo"]
    return status
