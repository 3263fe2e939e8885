"""The Prometheus metrics, read back by Prometheus' own parser."""

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from slc_ops.base.errors import RegistryError, SettingsError
from slc_ops.base.files import read_json, write_json
from slc_ops.base.window import Window
from slc_ops.observability.metrics import VERDICTS, Gauge, collect, render
from slc_ops.observability.server import application, listener
from slc_ops.refresh.observed import step
from slc_ops.refresh.versions import held_in_a_row, outcomes
from slc_ops.registry import Registry
from slc_ops.registry.publication import ChampionChange
from slc_ops.serving import running
from slc_ops.settings.environment import Installation
from tests.refresh.school import NEWEST, SIXTH, copy_of

TOKEN = "0123456789abcdef" * 4
NOW = datetime(2026, 2, 24, tzinfo=UTC)
OTHERS = "  empty: {source: {kind: lake, path: lake/empty}}\n  broken: {source: {kind: lake}}\n"

Found = dict[tuple[str, ...], float]


@pytest.fixture(scope="module")
def worked(operated: Installation, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """Two weeks of ``school``, beside a deployment that was never refreshed and an invalid one."""
    return copy_of(operated, tmp_path_factory.mktemp("worked"), OTHERS)


@pytest.fixture(scope="module")
def halted(stopped: Installation, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The same after validation stopped the third week."""
    return copy_of(stopped, tmp_path_factory.mktemp("halted"), OTHERS)


@pytest.fixture
def installation(worked: Installation, tmp_path: Path) -> Installation:
    """A copy that the test may change."""
    return copy_of(worked, tmp_path)


def outcome(installation: Installation, day: str, verdict: str, kind: str = "change") -> None:
    """The outcome of the sixth week as that of another one, with another verdict."""
    refreshes, start = installation.refreshes("school"), date.fromisoformat(day)
    (real,) = refreshes.glob(f"{SIXTH.key}/*/outcome.json")
    bounds = {"start": f"{start}T00:00:00+00:00", "end": f"{start + timedelta(7)}T00:00:00+00:00"}
    changed = {**read_json(real), "window": bounds, "verdict": verdict, "kind": kind}
    write_json(refreshes / day / "new" / "outcome.json", changed, sealed=True)


def asked(installation: Installation) -> Found:
    return parsed(render(collect(installation, NOW)))


def parsed(text: str) -> Found:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_duration_covers_the_first_step_to_the_version(worked: Installation) -> None:
    directory = worked.refreshes("school") / SIXTH.key / "steps"
    first, last = (read_json(directory / f"{name}.json") for name in ("extract", "publish"))
    found = asked(worked)
    assert found["slc_ops_refresh_duration_seconds", "school"] == last["ended"] - first["started"] > 0
    assert found["slc_ops_refresh_finished_timestamp_seconds", "school"] == last["ended"]
    assert found["slc_ops_step_duration_seconds", "school", "extract"] == first["ended"] - first["started"]


def test_a_restarted_refresh_has_no_duration_yet(installation: Installation) -> None:
    with step("extract", "school", SIXTH, installation.refreshes("school") / SIXTH.key):
        pass
    assert ("slc_ops_refresh_duration_seconds", "school") not in asked(installation)


def test_a_failed_step_is_a_metric(installation: Installation) -> None:
    directory = installation.refreshes("school") / SIXTH.key
    with suppress(RegistryError), step("publish", "school", SIXTH, directory):
        raise RegistryError("MLflow is away")
    found = asked(installation)
    assert found["slc_ops_step_failed", "school", "publish"] == 1
    assert ("slc_ops_refresh_duration_seconds", "school") not in found


def test_rows_quarantine_and_stop_are_of_the_newest_window(halted: Installation) -> None:
    found = asked(halted)
    assert found["slc_ops_window_rows", "school"] == 12_000
    assert found["slc_ops_window_quarantined_rows", "school"] == 7
    assert found["slc_ops_window_quarantined_share", "school"] == 7 / 12_000
    assert found["slc_ops_window_stopped", "school"] == 1
    assert found["slc_ops_window_end_timestamp_seconds", "school"] == NEWEST.end.timestamp()


def test_verdicts_are_counted_including_zeros(installation: Installation) -> None:
    before = asked(installation)
    assert sum(before["slc_ops_refreshes", "school", verdict] for verdict in VERDICTS) == 2
    outcome(installation, "2026-02-16", "reject")
    after = asked(installation)
    counts = [after["slc_ops_refreshes", "school", v] - before["slc_ops_refreshes", "school", v]
              for v in VERDICTS]  # fmt: skip
    assert counts == [0, 0, 1]


def test_a_deployment_without_a_refresh_has_only_that_metric(worked: Installation) -> None:
    found = asked(worked)
    assert found["slc_ops_refreshes", "empty", "promote"] == 0
    assert ("slc_ops_window_rows", "empty") not in found
    assert ("slc_ops_champion_age_seconds", "empty") not in found


def test_the_schedule_interval_comes_from_the_entry(installation: Installation) -> None:
    entry = "{source: {kind: lake, path: x}, window: {days: 14}, refresh_every: 2}"
    installation.deployments_file.write_text(f"deployments:\n  often: {entry}\n")
    assert asked(installation)["slc_ops_refresh_interval_seconds", "often"] == 28 * 86_400


def test_a_broken_entry_of_the_deployments_file_is_counted(worked: Installation) -> None:
    assert asked(worked)["slc_ops_broken_deployments",] == 1


def test_an_unreachable_ledger_is_reported_and_other_metrics_remain(installation: Installation) -> None:
    Path(installation.ledger_url.removeprefix("sqlite:///")).write_text("this is no database " * 100)
    found = asked(installation)
    assert found["slc_ops_ledger_up",] == 0
    assert found["slc_ops_window_rows", "school"] == 12_000


def test_special_characters_are_escaped() -> None:
    metric = Gauge("slc_ops_odd", 'a "help" with \\ and\nnewline')
    metric.add(0.1 + 0.2, deployment='quo"te \\ new\nline ü')
    assert parsed(render([metric])) == {("slc_ops_odd", 'quo"te \\ new\nline ü'): 0.1 + 0.2}


@pytest.fixture
def port(installation: Installation) -> Iterator[int]:
    """The port that serves the metrics of two weeks."""
    server = running.server_of(application(installation, TOKEN), seconds=1)
    with listener("127.0.0.1", 0, TOKEN) as socket:
        loop = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
        loop.start()
        yield socket.getsockname()[1]
        server.should_exit = True
        loop.join()


def get(port: int, path: str, token: str | None) -> tuple[int, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - loopback
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_the_endpoint_requires_the_token(port: int) -> None:
    status, text = get(port, "/metrics", TOKEN)
    assert status == 200
    assert parsed(text)["slc_ops_window_rows", "school"] == 12_000
    assert get(port, "/metrics", None)[0] == 401
    assert get(port, "/metrics", TOKEN[:-1])[0] == 401
    assert get(port, "/other", None)[0] == 401
    assert get(port, "/other", TOKEN)[0] == 404


def test_a_broken_deployments_file_gives_a_response_instead_of_a_crash(
    port: int, installation: Installation
) -> None:
    installation.deployments_file.write_text("- no mapping")
    status, text = get(port, "/metrics", TOKEN)
    assert status == 500
    assert "deployments" in text


def test_the_server_does_not_reveal_its_software(port: int) -> None:
    for path, token in (("/metrics", TOKEN), ("/metrics", None)):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            wanted = f"GET {path} HTTP/1.0\r\nAuthorization: Bearer {token}\r\n\r\n"
            client.sendall(wanted.encode())
            head = client.makefile("rb").read().split(b"\r\n\r\n")[0]
        assert b"server: slc-ops" in head
        assert b"uvicorn" not in head


def test_a_query_string_does_not_select_metrics(port: int) -> None:
    _, text = get(port, "/metrics?name[]=slc_ops_info", TOKEN)
    assert ("slc_ops_window_rows", "school") in parsed(text)


HALF = f"GET /metrics HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {TOKEN}\r\n".encode()


def test_many_incomplete_requests_do_not_block_the_scraper(port: int) -> None:
    before = threading.active_count()
    with ExitStack() as open_clients:
        for _ in range(300):
            client = socket.create_connection(("127.0.0.1", port), timeout=60)
            open_clients.enter_context(client)
            client.sendall(HALF)
        assert get(port, "/metrics", TOKEN)[0] == 200
        assert threading.active_count() == before


def test_a_slow_client_is_disconnected(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "HEAD_SECONDS", 0.3)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        for _ in range(1000):
            try:
                client.sendall(b"G")
            except ConnectionError:
                break
            time.sleep(0.01)
        else:
            pytest.fail("it was never dropped")
    assert get(port, "/metrics", TOKEN)[0] == 200


@pytest.mark.parametrize("token", ["", "short", "a" * 64])
def test_without_a_strong_token_it_does_not_start(token: str) -> None:
    with pytest.raises(SettingsError, match="SLC_OPS_METRICS_TOKEN is too weak"):
        listener("127.0.0.1", 0, token)


def test_a_port_in_use_is_reported(port: int) -> None:
    with pytest.raises(SettingsError, match=f"cannot listen on 127.0.0.1:{port}"):
        listener("127.0.0.1", port, TOKEN)


def test_the_command_prints_writes_and_returns_json(
    worked: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner

    from slc_ops.cli.upkeep import metrics

    monkeypatch.setenv("SLC_OPS_HOME", str(worked.home))
    monkeypatch.setenv("SLC_OPS_DEPLOYMENTS", str(worked.deployments_file))
    monkeypatch.setenv("SLC_OPS_LEDGER_URL", worked.ledger_url)
    printed = CliRunner().invoke(metrics, catch_exceptions=False)
    assert parsed(printed.stdout)["slc_ops_window_rows", "school"] == 12_000
    CliRunner().invoke(metrics, ["--output", str(tmp_path / "slc.prom")], catch_exceptions=False)
    assert parsed((tmp_path / "slc.prom").read_text()).keys() == parsed(printed.stdout).keys()
    answer = CliRunner().invoke(metrics, ["--json", "-"], catch_exceptions=False)
    assert "slc_ops_window_rows" in {metric["name"] for metric in json.loads(answer.stdout)["metrics"]}


def test_quality_and_gains_are_of_the_newest_evidence(installation: Installation) -> None:
    (stored,) = installation.refreshes("school").glob(f"{SIXTH.key}/*/outcome.json")
    newest, evidence = read_json(stored), read_json(stored.with_name("backtest.json"))
    del newest["quality"]["slc"]["ece"]
    write_json(stored, newest, sealed=True)
    found = asked(installation)
    auc = evidence["scores"][SIXTH.key]["slc"]["metrics"]["auc"]
    assert found["slc_ops_quality", "school", "slc", "auc"] == auc
    assert ("slc_ops_quality", "school", "slc", "ece") not in found
    gain = evidence["differences"]["slc"]["platt"]
    assert found["slc_ops_gain_over_platt", "low", "school", "slc", "auc"] == gain["auc"]["low"]
    # less loss is a gain
    assert found["slc_ops_gain_over_platt", "low", "school", "slc", "nll"] == -gain["nll"]["high"]
    assert ("slc_ops_gain_over_platt", "low", "school", "platt", "nll") not in found


def test_windows_whose_change_was_not_promoted_count_as_held(installation: Installation) -> None:
    outcome(installation, "2026-02-16", "hold")
    outcome(installation, "2026-02-23", "promote", kind="renewal")  # it was not approved
    assert asked(installation)["slc_ops_held_windows", "school"] == 2


def test_a_healthy_deployment_on_the_frozen_model_has_no_held_window(installation: Installation) -> None:
    """Its verdict is ``hold`` every week because there is nothing to promote."""
    for day in ("2026-02-16", "2026-02-23"):
        outcome(installation, day, "hold", kind="none")
    assert asked(installation)["slc_ops_held_windows", "school"] == 0


def test_a_window_that_retired_the_champion_does_not_count_as_held(installation: Installation) -> None:
    outcome(installation, "2026-02-16", "promote", kind="retire")
    outcome(installation, "2026-02-23", "hold", kind="retire")
    line = Registry.open(installation).history("school")
    decided = list(outcomes(installation.refreshes("school")))
    window = decided[-2][-1][1].window
    retirement = ChampionChange(
        "school", 9, "retirement", 1, None, Window.from_dict(window), "refresh", "worse", None,
        {"window": window}, NOW,
    )  # fmt: skip
    assert [held_in_a_row(decided, moves) for moves in (line, [*line, retirement])] == [2, 1]
