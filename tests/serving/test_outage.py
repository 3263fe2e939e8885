"""A registry that answers 500, hangs, disconnects or returns invalid data: a typed reason, and serving
continues.
"""

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slc_ops.base.errors import ParameterSetError, RegistryError
from slc_ops.serving import Corrector
from tests.registry.factory import parameter_set
from tests.serving.faulty import FaultyRegistry, faulty_registry


@pytest.fixture
def server(parameters: Path) -> Iterator[FaultyRegistry]:
    with faulty_registry(parameters) as running:
        yield running


@pytest.mark.faults(
    "the registry sends errors, invalid data, half an answer or none to a serving host",
    "it keeps serving the loaded parameters",
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
def test_the_last_good_set_serves_if_the_registry_fails(
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
    "a download of parameters is interrupted",
    "it keeps serving and retries",
)
@pytest.mark.parametrize(
    ("fault", "message"), [("cut", "cannot be reached|digest|understood"), ("404", "404")]
)
def test_a_failed_download_is_retried(
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
def test_a_new_host_without_a_cache_reports_the_error(
    server: FaultyRegistry, tmp_path: Path, fault: str
) -> None:
    server.fault = fault
    with pytest.raises(RegistryError):
        Corrector.from_registry(server.address, "demo", cache=tmp_path, interval=None, timeout=0.5)
    assert list(tmp_path.rglob("params.json")) == []


@pytest.mark.faults(
    "a registry sends single bytes or an endless answer to a serving host",
    "requests end at their deadline, oversized answers are dropped, the loaded parameters keep serving",
)
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("drip", "did not answer within 0.8 s"),
        ("drip head", "did not answer within 0.8 s"),
        ("drip file", "did not answer within 0.8 s"),
        ("endless", "sends more than the 4,194,304 bytes"),
        ("endless file", r"sends more than the [\d,]+ bytes"),
    ],
)
def test_an_endless_answer_of_the_registry_is_cut_off(
    server: FaultyRegistry, tmp_path: Path, fault: str, message: str
) -> None:
    given = {"cache": tmp_path, "interval": None, "timeout": 5.0}
    corrector = Corrector.from_registry(server.address, "demo", **given)
    corrector._follower._source._seconds = 0.8 if "drip" in fault else 60.0
    server.version, server.fault = 2, fault
    assert not corrector.refresh()
    assert re.search(message, corrector.health()["problem"])
    assert corrector.health()["version"] == 1
    again = Corrector.from_registry(
        server.address, "demo", **given, deadline=0.8 if "drip" in fault else 60.0
    )
    assert again.health()["from_cache"]
    assert again.correct("item-1", 0.5) == corrector.correct("item-1", 0.5)
    server.fault = None
    assert corrector.refresh()
    assert corrector.health()["version"] == 2
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size > 1 << 20]


def test_few_threads_wait_for_endless_requests(server: FaultyRegistry, tmp_path: Path) -> None:
    corrector = Corrector.from_registry(server.address, "demo", cache=tmp_path, interval=None)
    corrector._follower._source._seconds = 0.2
    server.fault = "drip head"
    before = threading.enumerate()
    for _ in range(6):
        assert not corrector.refresh()
    assert "earlier requests have not ended" in corrector.health()["problem"]
    own = [each for each in threading.enumerate() if each.name == "slc-ops-registry" and each not in before]
    assert len(own) == 3


@pytest.mark.faults(
    "staging and production on one serving host without the registry",
    "each serves its own set from its own cache",
)
def test_each_registry_has_its_own_cache(parameters: Path, tmp_path: Path) -> None:
    other = parameter_set(tmp_path / "other", seed=7)
    cache = tmp_path / "cache"
    with faulty_registry(parameters) as production, faulty_registry(other) as staging:
        ours = Corrector.from_registry(production.address, "demo", cache=cache, interval=None)
        theirs = Corrector.from_registry(staging.address, "demo", cache=cache, interval=None)
        expected = [Corrector.from_directory(each).correct("item-1", 0.5) for each in (parameters, other)]
        assert [each.correct("item-1", 0.5) for each in (ours, theirs)] == expected
        staging.fault = "500"
        again = Corrector.from_registry(staging.address, "demo", cache=cache, interval=None)
    assert again.health()["from_cache"]
    assert again.correct("item-1", 0.5) == expected[1]


@pytest.mark.faults(
    "the registry names a set of another deployment",
    "refused; it is never served",
)
def test_a_set_of_another_deployment_does_not_serve(server: FaultyRegistry, tmp_path: Path) -> None:
    with pytest.raises(ParameterSetError, match="of the deployment 'demo'; expected 'school'"):
        Corrector.from_registry(server.address, "school", cache=tmp_path, interval=None)


@pytest.mark.parametrize("option", ["?endpoint_override=127.0.0.1:9&scheme=http", "#x"])
def test_the_registry_cannot_redirect_requests_to_another_store(
    server: FaultyRegistry, tmp_path: Path, option: str
) -> None:
    server.source = f"s3://models/run{{}}{option}"
    with pytest.raises(RegistryError, match="with options of its own"):
        Corrector.from_registry(server.address, "demo", cache=tmp_path, interval=None)


def test_a_new_host_with_a_cache_serves(server: FaultyRegistry, tmp_path: Path) -> None:
    Corrector.from_registry(server.address, "demo", cache=tmp_path, interval=None)
    server.fault = "hang"
    corrector = Corrector.from_registry(server.address, "demo", cache=tmp_path, interval=None, timeout=0.3)
    assert corrector.health()["from_cache"]
    assert 0 < corrector.correct("item-1", 0.5) < 1


def test_polling_continues_if_the_registry_refuses_connections(parameters: Path, tmp_path: Path) -> None:
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
