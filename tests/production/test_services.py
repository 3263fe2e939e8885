"""A complete installation on real servers, by the commands of installation.md and runbooks.md."""

import json
import re
import socket
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from slc_ops.production import health
from tests.production.conftest import WINDOW
from tests.production.installation import ROOT, SERVICES, WORKERS, Installation
from tests.production.servers import free_port

pytestmark = [pytest.mark.services, pytest.mark.timeout(900)]

SERVE = str(Path(__file__).with_name("serve_golden.py"))


def documented(name: str) -> str:
    """A block of docs/runbooks.md, by the comment above it."""
    found = re.search(
        rf"<!-- {name} -->\n```sh\n(.*?)```", (ROOT / "docs" / "runbooks.md").read_text(), re.DOTALL
    )
    assert found
    return found[1]


def test_every_service_listens_on_loopback_only(installation: Installation) -> None:
    found = installation.listeners()
    assert {"mlflow", "airflow-apiserver", "metrics"} <= set(found)
    assert set().union(*found.values()) == {"127.0.0.1"}


@pytest.mark.parametrize(
    ("service", "path"),
    [
        ("airflow", "/api/v2/dags"),
        ("airflow", "/api/v2/connections"),
        ("airflow", "/execution/variables/secret"),
        ("mlflow", "/"),
        ("mlflow", "/api/2.0/mlflow/registered-models/search"),
        ("mlflow", "/api/2.0/mlflow-artifacts/artifacts"),
        ("metrics", "/metrics"),
        ("metrics", "/anything"),
    ],
)
def test_without_credentials_the_answer_is_401(installation: Installation, service: str, path: str) -> None:
    url = installation.url(service, path)
    assert httpx.get(url, timeout=60).status_code == 401
    wrong = (
        {"Authorization": "Bearer guess"}
        if service != "mlflow"
        else {"Authorization": "Basic YWRtaW46YWRtaW4="}
    )
    assert httpx.get(url, headers=wrong, timeout=60).status_code in {401, 403}


def test_mlflow_refuses_an_unlisted_host(installation: Installation) -> None:
    user = ("admin", installation.settings["MLFLOW_ADMIN_PASSWORD"])
    url = installation.url("mlflow", "/api/2.0/mlflow/registered-models/search")
    assert httpx.get(url, auth=user, timeout=60).status_code == 200
    assert httpx.get(url, auth=user, headers={"Host": "evil.example"}, timeout=60).status_code == 403


def test_redis_requires_its_password(installation: Installation) -> None:
    host, _, port = installation.settings["REDIS_ADDRESS"].partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(b"PING\r\n")
        assert b"NOAUTH" in connection.recv(100)


@pytest.mark.parametrize("database", ["airflow", "slc_ledger", "celery"])
def test_a_database_user_cannot_access_other_databases(installation: Installation, database: str) -> None:
    settings = installation.settings
    address = settings["POSTGRES_ADDRESS"]
    mlflow = f"postgresql://mlflow:{settings['MLFLOW_DATABASE_PASSWORD']}@{address}"
    psycopg.connect(f"{mlflow}/mlflow").close()
    with pytest.raises(psycopg.OperationalError, match="permission denied"):
        psycopg.connect(f"{mlflow}/{database}")


def test_a_worker_has_no_credentials_of_the_airflow_and_mlflow_databases(installation: Installation) -> None:
    shown = installation.succeed("exec", "airflow-worker", "env")
    for secret in (
        "AIRFLOW_DATABASE_PASSWORD",
        "MLFLOW_DATABASE_PASSWORD",
        "POSTGRES_PASSWORD",
        "S3_SECRET_KEY",
    ):
        assert installation.settings[secret] not in shown


def test_every_health_check_passes_and_fails_without_its_service(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(installation.healthy(service) for service in SERVICES)
    installation.succeed("exec", "airflow-worker", "python", "-m", "slc_ops.production", "healthy", "worker")
    environment = installation.variables("airflow-worker")
    monkeypatch.setattr(socket, "gethostname", lambda: "nowhere")
    monkeypatch.setattr(health, "TIMEOUT", 2.0)
    assert health.unhealthy_reason("worker", environment) == "the worker celery@nowhere does not answer"
    elsewhere = {"MLFLOW_PORT": str(free_port())}
    assert "mlflow does not answer" in str(health.unhealthy_reason("mlflow", elsewhere))


def test_a_refresh_survives_a_killed_worker_and_gives_one_version(
    installation: Installation, refreshed: dict[str, Any]
) -> None:
    assert refreshed["tries"]["publish"] == 2
    (survivor,) = set(WORKERS) - {refreshed["victim"]}
    assert "task_id='publish'" in installation.log(survivor)
    assert len(installation.runs()) == 1
    versions = "import mlflow; print(len(mlflow.MlflowClient().search_model_versions()))"
    assert installation.succeed("exec", "airflow-worker", "python", "-c", versions).split() == ["1"]


def test_a_worker_promoted_the_version(champion: dict[str, Any]) -> None:
    assert champion["champion"]["version"] == 1
    assert champion["champion"]["method"] == "slc"
    assert champion["findings"] == []


def test_every_log_line_of_a_step_has_deployment_and_window(
    installation: Installation, refreshed: dict[str, Any]
) -> None:
    logs = Path(installation.settings["SLC_OPS_HOME"]) / "logs"
    for task in ("extract", "validate", "publish"):
        path = max(logs.glob(f"**/run_id=manual*/task_id={task}/*.log"))  # the last attempt
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        begins, ends = (
            next(
                n
                for n, line in enumerate(lines)
                if line["event"].startswith(f"{task} of demo") and word in line["event"]
            )
            for word in ("begins", "finished")
        )
        for line in lines[begins : ends + 1]:
            assert (line.get("deployment"), line.get("window")) == ("demo", WINDOW), line
            assert line["step"] == task


def test_the_metrics_report_the_refresh_and_the_champion(
    installation: Installation, champion: dict[str, Any]
) -> None:
    bearer = {"Authorization": f"Bearer {installation.settings['METRICS_TOKEN']}"}
    answer = httpx.get(installation.url("metrics", "/metrics"), headers=bearer, timeout=60)
    assert answer.status_code == 200
    found = {
        (sample.name, sample.labels.get("verdict", "")): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
        if sample.labels.get("deployment", "demo") == "demo"
    }
    assert found["slc_ops_window_rows", ""] == 12000
    assert found["slc_ops_window_quarantined_rows", ""] == 0
    assert found["slc_ops_refreshes", "promote"] == 1
    assert found["slc_ops_refresh_duration_seconds", ""] > 1
    assert found["slc_ops_champion_version", ""] == 1
    age = datetime.now(UTC) - datetime(2026, 2, 9, tzinfo=UTC)
    assert found["slc_ops_champion_age_seconds", ""] == pytest.approx(age.total_seconds(), abs=60)


def test_airflow_sends_its_metrics_to_opentelemetry(installation: Installation, collector: Any) -> None:
    def names() -> bool:
        return any(b"airflow.scheduler" in batch for batch in collector.received)

    installation.wait(names, 120, "a batch of the scheduler's metrics")


def test_airflow_sends_its_metrics_to_statsd(installation: Installation, statsd: socket.socket) -> None:
    assert any(statsd.recv(65536).startswith(b"airflow.dag_processing.") for _ in range(2000))


def test_a_worker_promotes_after_approval_and_records_the_approver(
    installation: Installation, champion: dict[str, Any]
) -> None:
    """The manual gate on Celery: the approval waits in the triggerer and occupies no worker slot."""
    dag = "slc_weekly_refresh__asked"
    installation.airflow("PATCH", f"/dags/{dag}", is_paused=False)
    run = installation.airflow("POST", f"/dags/{dag}/dagRuns", logical_date="2026-02-09T00:00:01Z")
    path = f"/dags/{dag}/dagRuns/{run['dag_run_id']}"
    gate = f"{path}/taskInstances/gate"

    def waiting() -> bool:
        assert installation.airflow("GET", path)["state"] != "failed", installation.airflow("GET", gate)
        return bool(installation.airflow("GET", gate)["state"] == "awaiting_input")

    installation.wait(waiting, 300, "the question")
    question = installation.airflow("GET", f"{gate}/-1/hitlDetails")
    assert "| platt |" in question["body"]
    assert history(installation, "asked") == []

    def promoted() -> bool:
        if waiting():  # an answer within a second may be requested again
            answer = {"chosen_options": ["Approve"], "params_input": {}}
            with suppress(httpx.HTTPStatusError):  # 409: already answered
                installation.airflow("PATCH", f"{gate}/-1/hitlDetails", **answer)
            time.sleep(2)
        return bool(installation.airflow("GET", path)["state"] == "success")

    installation.wait(promoted, 300, "the promotion")
    (move,) = history(installation, "asked")
    assert move["actor"] == "admin (Airflow approval)"
    assert any("task_id='promote'" in installation.log(worker) for worker in WORKERS)


def history(installation: Installation, deployment: str) -> list[dict[str, Any]]:
    """The history of the deployment's champions."""
    said = installation.succeed(
        "exec", "airflow-worker", "slc-ops", "history", "--deployment", deployment, "--json", "-"
    )
    moves: list[dict[str, Any]] = json.loads(said)["moves"]
    return moves


def test_after_dump_and_restore_the_champion_serves_the_same_golden_vectors(
    installation: Installation, champion: dict[str, Any], tmp_path: Path
) -> None:
    before = json.loads(installation.succeed("exec", "airflow-worker", "python", SERVE, "demo"))
    assert before["served"] == pytest.approx(before["golden"], abs=1e-9)
    runs = count_runs(installation)
    installation.shell(documented("backup"), BACKUP=str(tmp_path / "backup"))

    installation.stop()
    for database in ("airflow", "mlflow", "slc_ledger"):
        installation.shell(f"dropdb --force {database}")
    httpx.post(f"{installation.settings['S3_ENDPOINT_URL']}/moto-api/reset", timeout=60).raise_for_status()
    empty = installation.run("service", "mlflow", timeout=120)
    assert empty.returncode == 2
    assert "does not exist" in empty.stderr

    installation.shell(documented("restore"), BACKUP=str(tmp_path / "backup"))
    installation.start("mlflow")
    installation.wait(lambda: installation.healthy("mlflow"), 300, "MLflow")
    after = json.loads(installation.succeed("exec", "airflow-worker", "python", SERVE, "demo"))
    assert after == before
    assert count_runs(installation) == runs > 0
    verify = installation.succeed(
        "exec", "airflow-worker", "slc-ops", "verify", "--deployment", "demo", "--json", "-"
    )
    assert json.loads(verify)["deployments"] == {"demo": []}


def count_runs(installation: Installation) -> int:
    """The number of DAG runs in Airflow's database."""
    return int(
        installation.shell(
            "psql --tuples-only --no-align --dbname=airflow --command 'SELECT count(*) FROM dag_run'"
        )
    )
