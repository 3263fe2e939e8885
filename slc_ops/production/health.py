"""Health checks: one fast check per service; the result is a reason or None."""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from slc_ops.settings.environment import MetricsVariables

TIMEOUT = 10.0
COMPONENTS = {
    "api-server": "metadatabase",
    "scheduler": "scheduler",
    "dag-processor": "dag_processor",
    "triggerer": "triggerer",
}
SERVICES = (*COMPONENTS, "worker", "mlflow", "metrics")


def unhealthy_reason(service: str, environment: Mapping[str, str]) -> str | None:
    """Return the reason why a service is unhealthy; None if it is healthy."""
    try:
        if service in COMPONENTS:
            return _airflow(COMPONENTS[service], environment["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"])
        if service == "worker":
            return _worker(environment["AIRFLOW__CELERY__BROKER_URL"], socket.gethostname())
        if service == "mlflow":
            _get(f"http://127.0.0.1:{environment.get('MLFLOW_PORT', '5000')}/health")
        else:
            found = MetricsVariables.read(environment)
            _get(f"http://127.0.0.1:{found.port}/metrics", found.token.get_secret_value())
    except (urllib.error.URLError, OSError) as error:
        return f"{service} does not answer: {error}"
    except KeyError as error:
        return f"the variable {error} is not set"
    return None


def _airflow(component: str, execution_url: str) -> str | None:
    """Read a component's health from Airflow's API server."""
    base = execution_url.removesuffix("/").removesuffix("/execution")
    answer = json.loads(_get(f"{base}/api/v2/monitor/health"))
    status = answer.get(component, {}).get("status")
    return None if status == "healthy" else f"Airflow reports its {component} as {status}"


def _worker(broker: str, host: str) -> str | None:
    """Ping the worker of this host over the broker, with a plain Celery app, without Airflow."""
    from celery import Celery
    from kombu.exceptions import OperationalError

    name = f"celery@{host}"
    try:
        with Celery(broker=broker) as app:
            answers: list[Any] = app.control.ping(destination=[name], timeout=TIMEOUT, limit=1)
    except OperationalError as error:
        return f"the broker does not answer: {error}"
    return None if answers else f"the worker {name} does not answer"


def _get(url: str, token: str | None = None) -> bytes:
    request = urllib.request.Request(url)  # noqa: S310 - http to an address of ours
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:  # noqa: S310 - as above
        body: bytes = response.read()
    return body
