"""Alerts and dashboard use existing metrics: checked by promtool, and by a real Prometheus on the demo."""

import json
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from slc_ops.demo.home import run_demo
from slc_ops.observability.server import application, listener
from slc_ops.refresh.served import audit_served
from slc_ops.registry import Registry
from slc_ops.serving.running import server_of
from slc_ops.settings.environment import Installation
from slc_ops.settings.quality import Limit

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "slc.json").read_text())
RULES: list[dict[str, Any]] = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())["groups"][0][
    "rules"
]
QUERIES = [(panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel["targets"]]
TOKEN = "0123456789abcdef" * 4


def needed(program: str) -> str:
    """The path of a program of Debian's prometheus package; the test is skipped without it."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed (Debian: apt install prometheus)")
    return found


@pytest.mark.slow
def test_every_alert_fires_when_it_should_and_only_then() -> None:
    answer = subprocess.run(
        [needed("promtool"), "test", "rules", "rules_test.yml"],
        cwd=DEPLOY / "prometheus", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_every_alert_has_a_firing_and_a_silent_case() -> None:
    tests = yaml.safe_load((DEPLOY / "prometheus" / "rules_test.yml").read_text())["tests"]
    tried = {(each["alertname"], bool(each["exp_alerts"])) for t in tests for each in t["alert_rule_test"]}
    assert tried == {(rule["alert"], fires) for rule in RULES for fires in (True, False)}


def test_every_runbook_of_an_alert_exists() -> None:
    text = (ROOT / "docs" / "runbooks.md").read_text()
    heads = {
        re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in re.findall(r"^#+ (.+)$", text, re.M)
    }
    from slc_ops.observability.troubles import OF_FINDINGS

    named = {rule["annotations"]["runbook"].removeprefix("docs/runbooks.md#") for rule in RULES}
    assert named | set(OF_FINDINGS.values()) <= heads


def test_alerts_and_panels_use_documented_metrics_only() -> None:
    documented = set(
        re.findall(r"^\| `(slc_ops_\w+)` \|", (ROOT / "docs" / "observability.md").read_text(), re.M)
    )
    asked = [rule["expr"] for rule in RULES] + [query for _, query in QUERIES]
    assert {name for text in asked for name in re.findall(r"\bslc_ops_\w+", text)} <= documented


def test_grafana_can_load_the_dashboard() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    source = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yaml").read_text())
    assert {panel["datasource"]["uid"] for panel in panels} == {source["datasources"][0]["uid"]}
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
        assert panel["type"] in {"stat", "timeseries"}
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
    assert [each["name"] for each in DASHBOARD["templating"]["list"]] == ["deployment"]


def test_the_compose_profile_loads_both() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())["services"]
    for name in ("prometheus", "grafana"):
        assert services[name]["profiles"] == ["monitoring"]
        for volume in services[name]["volumes"]:
            if volume.startswith("./"):
                assert (ROOT / volume.split(":")[0]).exists(), volume


def audit_the_newest_window(installation: Installation) -> None:
    """Audit the demo's newest window as if the log said that the champion had served it."""
    directory = max(
        each for each in installation.windows("demo").iterdir() if (each / "log.parquet").exists()
    )
    rows = pq.read_table(directory / "log.parquet")
    registry = Registry.open(installation)
    champion = registry.champion("demo")
    assert champion is not None
    parameters = registry.parameters(champion)
    answers = parameters.correct(rows["item_id"].combine_chunks(), rows["logit"].to_numpy())
    rows = rows.append_column("served_probability", pa.array(answers))
    rows = rows.append_column("served_version", pa.array([champion.number] * len(rows)))
    pq.write_table(rows, directory / "answered.parquet")
    found, findings = audit_served(installation, "demo", directory / "answered.parquet", directory, Limit())
    assert (found or {})["off"] == 0
    assert not findings


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prometheus that scrapes the demo's metrics and evaluates our rules."""
    program = needed("prometheus")
    home = tmp_path_factory.mktemp("demo")
    installation, _ = run_demo(home / "home", lambda text: None)
    audit_the_newest_window(installation)
    server = server_of(application(installation, TOKEN), seconds=1)
    with listener("127.0.0.1", 0, TOKEN) as answering:
        threading.Thread(target=server.run, kwargs={"sockets": [answering]}, daemon=True).start()
        config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
        (home / "token").write_text(TOKEN)
        shutil.copy(DEPLOY / "prometheus" / "rules.yml", home / "rules.yml")
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        (job,) = config["scrape_configs"]
        job["authorization"]["credentials_file"] = str(home / "token")
        job["static_configs"] = [{"targets": [f"127.0.0.1:{answering.getsockname()[1]}"]}]
        job["scrape_timeout"] = "1s"
        (home / "prometheus.yml").write_text(yaml.safe_dump(config))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        process = subprocess.Popen(
            [
                program, f"--config.file={home}/prometheus.yml", f"--storage.tsdb.path={home}/data",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        address = f"http://127.0.0.1:{port}"
        try:
            deadline = time.monotonic() + 60
            while not asked(address, 'up{job="slc-ops"} == 1'):
                assert time.monotonic() < deadline, "Prometheus did not scrape the demo within a minute"
                time.sleep(0.5)
            yield address
        finally:
            process.terminate()
            process.wait(30)
            server.should_exit = True


def fetched(address: str) -> Any:
    with urllib.request.urlopen(address) as reply:  # noqa: S310 - our own server on loopback
        return json.load(reply)


def asked(address: str, query: str) -> list[Any]:
    """The current result of a Prometheus query."""
    try:
        answer = fetched(f"{address}/api/v1/query?{urllib.parse.urlencode({'query': query})}")
    except ConnectionError:
        return []
    except OSError as error:
        if isinstance(getattr(error, "reason", None), ConnectionError):
            return []
        raise
    assert answer["status"] == "success"
    return list(answer["data"]["result"])


@pytest.mark.services
@pytest.mark.parametrize(("title", "query"), QUERIES)
def test_every_panel_has_data(prometheus: str, title: str, query: str) -> None:
    found = asked(prometheus, query.replace("$deployment", ".*"))
    assert found, f"{title}: {query}"
    assert {each["metric"]["deployment"] for each in found} == {"demo"}


@pytest.mark.services
def test_the_rules_are_loaded_and_healthy(prometheus: str) -> None:
    deadline = time.monotonic() + 30
    while True:
        rules = fetched(f"{prometheus}/api/v1/rules")["data"]["groups"][0]["rules"]
        if all(rule["health"] == "ok" for rule in rules) or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    assert {rule["name"]: rule["health"] for rule in rules} == {rule["alert"]: "ok" for rule in RULES}
