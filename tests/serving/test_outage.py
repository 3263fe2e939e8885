"""A registry that answers 500, hangs, breaks off or talks nonsense: a typed reason, and serving goes on."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slc_ops.base.errors import RegistryError
from slc_ops.serving import Corrector
from tests.serving.faulty import FaultyRegistry, faulty_registry


@pytest.fixture
def server(parameters: Path) -> Iterator[FaultyRegistry]:
    with faulty_registry(parameters) as running:
        yield running


@pytest.mark.faults(
    "the registry answers errors, garbage, half or nothing to a serving host",
    "it goes on with the parameters that it has",
)
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("500", "answered 500"),
        ("hang", "cannot be reached: .*timed out"),
        ("garbage", "not JSON"),
        ("nonsense", "described no version"),
        ("redirect", "answered 302"),
    ],
)
def test_a_registry_that_fails_is_survived(
    server: FaultyRegistry, tmp_path: Path, fault: str, message: str
) -> None:
    corrector = Corrector.from_registry(server.address, "demo", cache=tmp_path, interval=None, timeout=0.5)
    before = corrector.correct("item-1", 0.5)
    server.fault = fault
    assert not corrector.refresh()
    health = corrector.health()
    assert health["status"] == "stale"
    assert re.search(message, health["problem"])
    assert corrector.correct("item-1", 0.5) == before
    server.fault = None
    corrector.refresh()
    assert corrector.health()["status"] == "ok"


@pytest.mark.faults(
    "a download of parameters breaks off",
    "it goes on, and tries again",
)
@pytest.mark.parametrize(
    ("fault", "message"), [("cut", "cannot be reached|digest|understood"), ("404", "404")]
)
def test_a_download_that_fails_is_survived_and_tried_again(
    server: FaultyRegistry, tmp_path: Path, fault: str, message: str
) -> None:
    corrector = Corrector.from_registry(server.address, "demo", cache=tmp_path, interval=None, timeout=0.5)
    server.version, server.fault = 2, fault
    assert not corrector.refresh()
    assert re.search(message, corrector.health()["problem"])
    assert corrector.health()["version"] == 1
    server.fault = None
    assert corrector.refresh()
    assert corrector.health()["version"] == 2


@pytest.mark.parametrize("fault", ["500", "hang", "garbage", "cut"])
def test_a_new_host_without_a_cache_says_what_is_wrong(
    server: FaultyRegistry, tmp_path: Path, fault: str
) -> None:
    server.fault = fault
    with pytest.raises(RegistryError):
        Corrector.from_registry(server.address, "demo", cache=tmp_path, interval=None, timeout=0.5)
    assert list(tmp_path.rglob("params.json")) == []


def test_a_new_host_with_a_cache_serves(server: FaultyRegistry, tmp_path: Path) -> None:
    Corrector.from_registry(server.address, "demo", cache=tmp_path, interval=None)
    server.fault = "hang"
    corrector = Corrector.from_registry(server.address, "demo", cache=tmp_path, interval=None, timeout=0.3)
    assert corrector.health()["from_cache"]
    assert 0 < corrector.correct("item-1", 0.5) < 1


def test_nobody_listening_is_survived_by_the_watcher(parameters: Path, tmp_path: Path) -> None:
    with faulty_registry(parameters) as server:
        corrector = Corrector.from_registry(
            server.address, "demo", cache=tmp_path, interval=0.05, timeout=0.5
        )
    with corrector:
        deadline = time.monotonic() + 20
        while corrector.health()["status"] == "ok" and time.monotonic() < deadline:
            time.sleep(0.02)
        assert "cannot be reached" in corrector.health()["problem"]
        assert 0 < corrector.correct("item-1", 0.5) < 1


def test_credentials_of_mlflows_environment_are_sent(
    server: FaultyRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "ann")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "secret")
    Corrector.from_registry(server.address, "demo", cache=tmp_path, interval=None)
    assert {headers["Authorization"] for headers in server.headers_seen} == {"Basic YW5uOnNlY3JldA=="}
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "t0ken")
    server.headers_seen.clear()
    Corrector.from_registry(server.address, "demo", cache=tmp_path, interval=None)
    assert server.headers_seen[0]["Authorization"] == "Bearer t0ken"


def test_a_password_in_the_address_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(RegistryError) as caught:
        Corrector.from_registry("http://ann:hunter2@127.0.0.1:9", "demo", cache=tmp_path, timeout=0.5)
    assert "hunter2" not in str(caught.value)
