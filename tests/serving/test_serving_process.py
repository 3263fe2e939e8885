"""``slc-ops serve`` as a process: other clients, load during promotions, slow clients, shutdown."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from slc_ops.cli import main
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.registry import Registry
from slc_ops.serving import Corrector, app, running
from slc_ops.serving.endpoint import Limits
from tests.registry.factory import WEEKS, parameter_set, publication
from tests.serving.servers import stop

HEAD = b"POST /correct HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
ITEMS, LOGITS = ["item-3", "item-9", "never seen"], [0.2, -1.0, 2.0]
FOLLOWING = ("--deployment", "demo", "--every", "0.2", "--canary", "0.3")


@contextmanager
def server(home: Path, *arguments: str, **variables: str) -> Iterator[tuple[int, int]]:
    """Run the command; yield its port and process id."""
    said = home / "address.json"
    command = [
        str(Path(sys.executable).parent / "slc-ops"),
        "serve",
        *arguments,
        "--port",
        "0",
        "--json",
        str(said),
    ]
    with (home / "serve.log").open("wb") as log:
        process = subprocess.Popen(
            command, env=os.environ | variables, stdout=log, stderr=log, start_new_session=True
        )
    try:
        wait_for(lambda: said.exists() or process.poll() is not None)
        assert process.poll() is None, (home / "serve.log").read_text()
        yield int(json.loads(said.read_text())["address"].rpartition(":")[2]), process.pid
    finally:
        stop(process)


def test_mlflows_client_gets_the_answers_of_the_registered_model(parameters: Path, tmp_path: Path) -> None:
    from mlflow.pyfunc.scoring_server.client import ScoringServerClient

    frame = pd.DataFrame({"item_id": ITEMS, "logit": LOGITS})
    with server(tmp_path, "--params", str(parameters)) as (port, pid):
        client = ScoringServerClient("127.0.0.1", port)
        client.wait_server_ready()
        found = client.invoke(frame).get_predictions()
        assert json.loads(client.get_version())["method"] == "slc"
        assert ParameterSet.read(parameters).correct(ITEMS, LOGITS).tolist() == found["p_corrected"].tolist()
        check_stop(port, pid)


def check_stop(port: int, pid: int) -> None:
    """A request in progress during shutdown is answered; new ones are not accepted."""
    body = json.dumps({"item_id": ITEMS, "logit": LOGITS}).encode()
    with socket.create_connection(("127.0.0.1", port)) as half:
        half.sendall(HEAD + f"Content-Length: {len(body)}\r\n\r\n".encode() + body[:5])
        time.sleep(0.3)  # so that the server has received it
        os.kill(pid, signal.SIGTERM)
        wait_for(lambda: not listens(port))
        half.sendall(body[5:])
        answer = http.client.HTTPResponse(half)
        answer.begin()
        assert answer.status == 200
        assert len(json.loads(answer.read())["probability"]) == 3


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait for a condition; the test's timeout is the limit."""
    while not condition():
        time.sleep(0.02)


class Load:
    """Clients that send single rows and batches without pause; each answer is compared with its version's."""

    def __init__(self, port: int, sets: dict[int, Path], clients: int = 4) -> None:
        self._port, self._stop = port, threading.Event()
        random = np.random.default_rng(0)
        self._bodies: list[bytes] = []
        self._expected: list[dict[int, list[float]]] = []
        for rows in (1, 1, 40):
            items = [f"item-{k}" for k in random.integers(0, 20, rows)]
            logits = random.normal(size=rows).tolist()
            users = [f"user-{k}" for k in random.integers(0, 50, rows)]
            columns = {"item_id": items, "logit": logits, "user_id": users}
            self._bodies.append(json.dumps(columns).encode())
            self._expected.append(
                {v: ParameterSet.read(path).correct(items, logits).tolist() for v, path in sets.items()}
            )
        self.versions: Counter[int] = Counter()
        self.mixed = 0
        self.wrong: list[str] = []
        self._threads = [threading.Thread(target=self._run, args=(k,)) for k in range(clients)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port)
        while not self._stop.is_set():
            number = (number + 1) % len(self._bodies)
            try:
                headers = {"content-type": "application/json"}
                connection.request("POST", "/correct", self._bodies[number], headers)
                answer = connection.getresponse()
                found = json.loads(answer.read())
                named = found.get("versions") or [found["version"]] * len(found["probability"])
                expected = [self._expected[number][version][row] for row, version in enumerate(named)]
                if answer.status != 200 or np.abs(np.subtract(found["probability"], expected)).max() > 1e-12:
                    self.wrong.append(f"{answer.status}: {found} instead of {expected}"[:500])
                self.versions.update(set(named))
                self.mixed += len(set(named)) > 1
            except Exception as error:
                self.wrong.append(repr(error))
                return

    def until(self, version: int, count: int) -> None:
        """Wait for a number of further answers of a version."""
        enough = self.versions[version] + count
        wait_for(lambda: self.versions[version] >= enough or bool(self.wrong))


@pytest.mark.slow
def test_no_answer_is_wrong_or_lost_during_promotions_and_registry_failures(
    registry: Registry, parameters: Path, tmp_path: Path
) -> None:
    other = parameter_set(tmp_path / "other", seed=5, window=WEEKS[1])
    registry.publish(publication(parameters))
    registry.promote("demo", 1, actor="ann", reason="good")
    database = Path(registry.installation.tracking_uri.removeprefix("sqlite:///"))
    variables = {
        "MLFLOW_TRACKING_URI": registry.installation.tracking_uri,
        "SLC_OPS_HOME": str(tmp_path / "host"),
    }
    with (
        server(tmp_path, "--deployment", "demo", "--every", "0.2", "--canary", "0.3", **variables) as (
            port,
            _,
        ),
        Load(port, {1: parameters, 2: other}) as load,
    ):
        load.until(1, 100)
        registry.publish(publication(other, window=WEEKS[1]))
        load.until(2, 50)  # a challenger: users of its share get its answers, also within one batch
        registry.promote("demo", 2, actor="ann", reason="better")
        load.until(2, 100)
        kept = database.read_bytes()
        database.write_bytes(b"no database " * 10_000)
        wait_for(lambda: health(port)["status"] == "stale")
        load.until(2, 200)
        database.write_bytes(kept)
        wait_for(lambda: health(port)["status"] == "ok")
        registry.rollback("demo", actor="bob", reason="worse")
        load.until(1, 100)
        serving = health(port)
    assert load.wrong == []
    assert load.mixed > 0
    assert serving["version"] == 1
    assert set(load.versions) == {1, 2}


@pytest.mark.slow
def test_a_webhook_of_mlflow_triggers_an_immediate_check(
    registry: Registry, parameters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.entities.webhook import Webhook, WebhookAction, WebhookEntity, WebhookEvent
    from mlflow.webhooks.delivery import test_webhook as send

    monkeypatch.setenv("MLFLOW_WEBHOOK_ALLOWED_SCHEMES", "http")
    monkeypatch.setenv("MLFLOW_WEBHOOK_ALLOW_PRIVATE_IPS", "true")
    registry.publish(publication(parameters))
    registry.promote("demo", 1, actor="ann", reason="good")
    variables = {
        "MLFLOW_TRACKING_URI": registry.installation.tracking_uri,
        "SLC_OPS_HOME": str(tmp_path / "host"),
        "SLC_OPS_SERVE_WEBHOOK_SECRET": "a secret of the webhook, long enough",
    }
    event = WebhookEvent(WebhookEntity.MODEL_VERSION_ALIAS, WebhookAction.CREATED)
    with server(tmp_path, "--deployment", "demo", "--every", "3600", **variables) as (port, _):
        other = parameter_set(tmp_path / "other", seed=5, window=WEEKS[1])
        registry.publish(publication(other, window=WEEKS[1]))
        registry.promote("demo", 2, actor="ann", reason="better")
        address = f"http://127.0.0.1:{port}/webhooks/mlflow"
        reported = []
        for secret in ("another secret", variables["SLC_OPS_SERVE_WEBHOOK_SECRET"]):
            reported.append(send(Webhook("1", "serve", address, [event], 0, 0, secret=secret)))
            if len(reported) == 1:
                assert health(port)["version"] == 1
        serving = health(port)["version"]
    assert [each.response_status for each in reported] == [401, 200], reported
    assert serving == 2


def health(port: int) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/health")
    return json.loads(connection.getresponse().read())


@pytest.fixture
def in_thread(parameters: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The same server in this process with short timeouts; yields its port."""
    import uvicorn

    monkeypatch.setattr(running, "HEAD_SECONDS", 0.3)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    application = app(Corrector.from_directory(parameters), limits=Limits(seconds=0.3))
    servers: list[uvicorn.Server] = []
    make = uvicorn.Server.__init__

    def remember(self: uvicorn.Server, config: uvicorn.Config) -> None:
        make(self, config)
        servers.append(self)

    monkeypatch.setattr(uvicorn.Server, "__init__", remember)
    thread = threading.Thread(target=running.run, args=(application, listener, 1.0))
    thread.start()
    wait_for(lambda: bool(servers) and servers[0].started)
    yield listener.getsockname()[1]
    servers[0].should_exit = True
    thread.join()


def test_slow_clients_are_cut_off_and_delay_no_others(in_thread: int) -> None:
    silent, dripping, long, half, second = (
        socket.create_connection(("127.0.0.1", in_thread)) for _ in range(5)
    )
    second.sendall(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
    answered = b""
    while not answered.endswith(b"{}"):
        answered += second.recv(65536)
    second.sendall(HEAD)
    dripping.sendall(HEAD)
    long.sendall(HEAD + b"X: " + b"x" * (running.HEAD_BYTES + 1))
    half.sendall(HEAD + b"Content-Length: 100\r\n\r\n{")
    assert health(in_thread)["status"] == "ok"
    for slow in (silent, dripping, long, second):
        with slow:
            assert end_of(slow) == b""
    with half:
        assert b'{"error":"the request took longer than 0.3 s"}' in end_of(half)
    assert health(in_thread)["status"] == "ok"


def end_of(connection: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    found = b""
    try:
        while chunk := connection.recv(65536):
            found += chunk
            if b"error" in found:
                break
    except ConnectionResetError:
        pass
    return found


@pytest.mark.parametrize(
    ("arguments", "variables", "words"),
    [
        ([], {}, "either --deployment or --params"),
        (["--params", "SET", "--canary", "0.1"], {}, "--canary needs --deployment"),
        (["--params", "nowhere"], {}, "is missing"),
        (["--params", "SET", "--host", "::"], {}, "set SLC_OPS_SERVE_TOKEN"),
        (["--params", "SET", "--host", "192.0.2.1"], {"SLC_OPS_SERVE_TOKEN": "k" * 30}, "too weak"),
        (["--params", "SET"], {"SLC_OPS_SERVE_WEBHOOK_SECRET": "short"}, "too weak"),
    ],
)  # fmt: skip
def test_invalid_options_are_refused_in_one_line(
    parameters: Path,
    arguments: list[str],
    variables: dict[str, str],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    given = [str(parameters) if each == "SET" else each for each in arguments]
    monkeypatch.setattr(sys, "argv", ["slc-ops", "serve", "--port", "0", *given])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (2, "")
    assert words in said.err
    assert said.err.count("\n") == 1
