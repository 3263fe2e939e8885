"""The Prometheus metrics, read back by Prometheus' own parser."""

import json
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from slc_ops.base.errors import SettingsError
from slc_ops.base.files import write_json
from slc_ops.base.window import Window
from slc_ops.observability.metrics import Gauge, collect, render
from slc_ops.observability.server import application, listener
from slc_ops.refresh.versions import Outcome, held_in_a_row, outcomes
from slc_ops.registry.publication import ChampionChange
from slc_ops.serving import running
from slc_ops.settings.environment import Installation

TOKEN = "0123456789abcdef" * 4
NOW = datetime(2026, 4, 1, tzinfo=UTC)
DEPLOYMENTS = """\
deployments:
  demo: {source: {kind: lake, path: lake/demo}}
  empty: {source: {kind: lake, path: lake/empty}}
  broken: {source: {kind: lake}}
"""

Found = dict[tuple[str, ...], float]


def outcome(refresh: Path, verdict: str, order: int = 1, kind: str = "change", **figures: Any) -> None:
    """The stored outcome of a refresh."""
    start = date.fromisoformat(refresh.parent.name)
    bounds = {"start": f"{start}T00:00:00+00:00", "end": f"{start + timedelta(7)}T00:00:00+00:00"}
    found = Outcome(bounds, order, verdict, kind, "slc", "digest", **figures)
    write_json(refresh / "outcome.json", asdict(found), sealed=True)


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    (tmp_path / "deployments.yaml").write_text(DEPLOYMENTS)
    return Installation(tmp_path, tmp_path / "deployments.yaml", "", f"sqlite:///{tmp_path}/ledger.db", "")


@pytest.fixture
def worked(installation: Installation) -> Installation:
    """Two weeks of ``demo``; validation stopped the second."""
    for week, end, status in (
        ("2026-03-16", "2026-03-23", "passed"),
        ("2026-03-23", "2026-03-30", "stopped"),
    ):
        window = installation.windows("demo") / week
        bounds = {"start": f"{week}T00:00:00+00:00", "end": f"{end}T00:00:00+00:00"}
        result = {"window": bounds, "status": status, "rows": 1000, "quarantined": 7}
        write_json(window / "validation.json", result)
    refreshes = installation.refreshes("demo") / "2026-03-16"
    outcome(refreshes / "one", "hold", 1)
    outcome(refreshes / "two", "promote", 2)
    for name, started, ended in (("extract", 100.0, 110.0), ("publish", 150.0, 175.5)):
        record = {"step": name, "started": started, "ended": ended, "outcome": "finished"}
        write_json(refreshes / "steps" / f"{name}.json", record)
    return installation


def asked(installation: Installation) -> Found:
    return parsed(render(collect(installation, NOW)))


def parsed(text: str) -> Found:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_duration_covers_the_first_step_to_the_version(worked: Installation) -> None:
    found = asked(worked)
    assert found["slc_ops_refresh_duration_seconds", "demo"] == 75.5
    assert found["slc_ops_refresh_finished_timestamp_seconds", "demo"] == 175.5
    assert found["slc_ops_step_duration_seconds", "demo", "extract"] == 10.0


def test_a_restarted_refresh_has_no_duration_yet(worked: Installation) -> None:
    again = {"step": "extract", "started": 500.0, "ended": 510.0, "outcome": "finished"}
    write_json(worked.refreshes("demo") / "2026-03-16" / "steps" / "extract.json", again)
    assert ("slc_ops_refresh_duration_seconds", "demo") not in asked(worked)


def test_a_failed_step_is_a_metric(worked: Installation) -> None:
    failed = {"step": "publish", "started": 150.0, "ended": 151.0, "outcome": "failed"}
    write_json(worked.refreshes("demo") / "2026-03-16" / "steps" / "publish.json", failed)
    found = asked(worked)
    assert found["slc_ops_step_failed", "demo", "publish"] == 1
    assert ("slc_ops_refresh_duration_seconds", "demo") not in found


def test_rows_quarantine_and_stop_are_of_the_newest_window(worked: Installation) -> None:
    found = asked(worked)
    assert found["slc_ops_window_rows", "demo"] == 1000
    assert found["slc_ops_window_quarantined_rows", "demo"] == 7
    assert found["slc_ops_window_stopped", "demo"] == 1
    assert (
        found["slc_ops_window_end_timestamp_seconds", "demo"] == datetime(2026, 3, 30, tzinfo=UTC).timestamp()
    )


def test_verdicts_are_counted_including_zeros(worked: Installation) -> None:
    found = asked(worked)
    counts = {v: found["slc_ops_refreshes", "demo", v] for v in ("promote", "hold", "reject")}
    assert counts == {"promote": 1, "hold": 1, "reject": 0}


def test_a_deployment_without_a_refresh_has_only_that_metric(worked: Installation) -> None:
    found = asked(worked)
    assert found["slc_ops_refreshes", "empty", "promote"] == 0
    assert ("slc_ops_window_rows", "empty") not in found
    assert ("slc_ops_champion_age_seconds", "empty") not in found


def test_the_schedule_interval_comes_from_the_entry(installation: Installation) -> None:
    entry = "{source: {kind: lake, path: x}, window: {days: 14}, refresh_every: 2}"
    installation.deployments_file.write_text(f"deployments:\n  often: {entry}\n")
    assert asked(installation)["slc_ops_refresh_interval_seconds", "often"] == 28 * 86_400


def test_a_broken_entry_of_the_deployments_file_is_counted(installation: Installation) -> None:
    assert asked(installation)["slc_ops_broken_deployments",] == 1


def test_an_unreachable_ledger_is_reported_and_other_metrics_remain(worked: Installation) -> None:
    Path(worked.ledger_url.removeprefix("sqlite:///")).write_text("this is no database " * 100)
    found = asked(worked)
    assert found["slc_ops_ledger_up",] == 0
    assert found["slc_ops_window_rows", "demo"] == 1000


def test_special_characters_are_escaped() -> None:
    metric = Gauge("slc_ops_odd", 'a "help" with \\ and\nnewline')
    metric.add(0.1 + 0.2, deployment='quo"te \\ new\nline ü')
    assert parsed(render([metric])) == {("slc_ops_odd", 'quo"te \\ new\nline ü'): 0.1 + 0.2}


@pytest.fixture
def port(worked: Installation) -> Iterator[int]:
    """The port that serves the metrics of two weeks."""
    server = running.server_of(application(worked, TOKEN), seconds=1)
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
    assert parsed(text)["slc_ops_window_rows", "demo"] == 1000
    assert get(port, "/metrics", None)[0] == 401
    assert get(port, "/metrics", TOKEN[:-1])[0] == 401
    assert get(port, "/other", None)[0] == 401
    assert get(port, "/other", TOKEN)[0] == 404


def test_a_broken_deployments_file_gives_a_response_instead_of_a_crash(
    port: int, worked: Installation
) -> None:
    worked.deployments_file.write_text("- no mapping")
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
    assert ("slc_ops_window_rows", "demo") in parsed(text)


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
    assert parsed(printed.stdout)["slc_ops_window_rows", "demo"] == 1000
    CliRunner().invoke(metrics, ["--output", str(tmp_path / "slc.prom")], catch_exceptions=False)
    assert parsed((tmp_path / "slc.prom").read_text()).keys() == parsed(printed.stdout).keys()
    answer = CliRunner().invoke(metrics, ["--json", "-"], catch_exceptions=False)
    assert "slc_ops_window_rows" in {metric["name"] for metric in json.loads(answer.stdout)["metrics"]}


def test_quality_and_gains_are_of_the_newest_evidence(worked: Installation) -> None:
    gain = {
        "auc": {"estimate": 0.1, "low": 0.05, "high": 0.2},
        "nll": {"estimate": -0.3, "low": -0.4, "high": -0.2},
    }
    newest = worked.refreshes("demo") / "2026-03-23" / "new"
    outcome(newest, "hold", quality={"slc": {"auc": 0.8, "nll": 0.5}}, gains={"slc": gain, "platt": gain})
    found = asked(worked)
    assert found["slc_ops_quality", "demo", "slc", "auc"] == 0.8
    assert ("slc_ops_quality", "demo", "slc", "ece") not in found
    assert found["slc_ops_gain_over_platt", "low", "demo", "slc", "auc"] == 0.05
    assert found["slc_ops_gain_over_platt", "low", "demo", "slc", "nll"] == 0.2  # less loss is a gain
    assert ("slc_ops_gain_over_platt", "low", "demo", "platt", "nll") not in found
    assert found["slc_ops_window_quarantined_share", "demo"] == 0.007


def test_windows_whose_change_was_not_promoted_count_as_held(worked: Installation) -> None:
    refreshes = worked.refreshes("demo")
    outcome(refreshes / "2026-03-23" / "new", "hold")
    outcome(refreshes / "2026-03-30" / "new", "promote", kind="renewal")  # it was not approved
    assert asked(worked)["slc_ops_held_windows", "demo"] == 3


def test_a_healthy_deployment_on_the_frozen_model_has_no_held_window(worked: Installation) -> None:
    """Its verdict is ``hold`` every week because there is nothing to promote."""
    for day in (23, 30):
        outcome(worked.refreshes("demo") / f"2026-03-{day}" / "new", "hold", kind="none")
    assert asked(worked)["slc_ops_held_windows", "demo"] == 0


def test_a_window_that_retired_the_champion_does_not_count_as_held(worked: Installation) -> None:
    refreshes = worked.refreshes("demo")
    for day in ("2026-03-23", "2026-03-30"):
        outcome(refreshes / day / "new", "hold" if day.endswith("30") else "promote", kind="retire")
    decided = list(outcomes(refreshes))
    window = decided[1][-1][1].window
    retirement = ChampionChange(
        "demo", 2, "retirement", 1, None, Window.from_dict(window), "refresh", "worse", None,
        {"window": window}, NOW,
    )  # fmt: skip
    assert [held_in_a_row(decided, line) for line in ([], [retirement])] == [3, 1]
