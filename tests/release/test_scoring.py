"""A scoring host with a version's own requirements gives the same probabilities."""

import json
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.registry.model import write_model
from tests.registry.factory import parameter_set
from tests.release.environments import build, clean_environment, install, make_environment

pytestmark = pytest.mark.services
ITEMS, LOGITS = ["item-3", "item-9", "never seen"], [0.2, -1.0, 2.0]


def ask(url: str, body: dict[str, object] | None, server: "subprocess.Popen[bytes]") -> bytes:
    """The answer of a server that may still be starting."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json"})  # noqa: S310
    deadline = time.monotonic() + 60
    while server.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
                found: bytes = answer.read()
                return found
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.3)
    raise AssertionError(f"{url} did not answer; the server ended with {server.poll()}")


def test_an_environment_with_the_versions_requirements_serves_the_same_probabilities(tmp_path: Path) -> None:
    build(tmp_path / "dist")
    source = parameter_set(tmp_path / "set")
    parameters = ParameterSet.read(source)
    write_model(source, parameters, tmp_path / "model")
    python = make_environment(tmp_path / "venv")
    install(python, "--find-links", tmp_path / "dist", "--requirement", tmp_path / "model/requirements.txt")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    variables = clean_environment() | {
        "PATH": f"{python.parent}:/usr/bin:/bin",
        "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "False",
        "MLFLOW_DISABLE_TELEMETRY": "true",
    }
    command = [str(python), "-m", "mlflow", "models", "serve", "--env-manager", "local",
               "--model-uri", str(tmp_path / "model"), "--port", str(port)]  # fmt: skip
    with (tmp_path / "server.log").open("wb") as log:
        server = subprocess.Popen(command, env=variables, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            ask(f"{url}/health", None, server)
            rows = [list(row) for row in zip(ITEMS, LOGITS, strict=True)]
            body: dict[str, object] = {"dataframe_split": {"columns": ["item_id", "logit"], "data": rows}}
            served = json.loads(ask(f"{url}/invocations", body, server))["predictions"]
        finally:
            server.terminate()
            server.wait(20)
    assert [row["p_corrected"] for row in served] == [float(p) for p in parameters.correct(ITEMS, LOGITS)]
    absent = (
        "import importlib.util as u; print([n for n in ('airflow', 'scipy', 'sklearn') if u.find_spec(n)])"
    )
    found = subprocess.run([str(python), "-c", absent], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
