"""Services without Docker, with the commands and variables of the compose file, on loopback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from slc_ops.base.errors import SettingsError
from slc_ops.production.compose import interpolate, read_env_file, read_service

ROOT = Path(__file__).parent.parent.parent
FILE = ROOT / "docker-compose.yaml"
OURS = [n for n, e in yaml.safe_load(FILE.read_text())["services"].items() if "build" in e and "command" in e]


@pytest.fixture
def env_file(tmp_path: Path) -> Path:
    path = tmp_path / "env"
    subprocess.run([str(ROOT / "scripts" / "make_env.sh"), str(path)], check=True, capture_output=True)
    return path


@pytest.mark.parametrize("name", OURS)
def test_a_service_runs_the_command_of_the_compose_file(name: str, env_file: Path) -> None:
    entry = yaml.safe_load(FILE.read_text())["services"][name]
    service = read_service(FILE, name, read_env_file(env_file))
    assert service.command[-len(entry["command"]) :] == entry["command"]
    assert service.command[:3] == [sys.executable, "-m", "slc_ops.production"]
    assert set(entry["environment"]) <= set(service.environment)


@pytest.mark.parametrize("name", OURS)
def test_nothing_is_bound_beyond_loopback_and_no_container_is_named(name: str, env_file: Path) -> None:
    values = " ".join(read_service(FILE, name, read_env_file(env_file)).environment.values())
    assert "0.0.0.0" not in values  # noqa: S104 - that is what must not be
    for container in ("@postgres:", "@redis:", "//objects:", "//airflow-apiserver:"):
        assert container not in values


def test_a_missing_secret_is_named(env_file: Path) -> None:
    settings = {name: value for name, value in read_env_file(env_file).items() if name != "REDIS_PASSWORD"}
    with pytest.raises(SettingsError, match="REDIS_PASSWORD is not set: run make env"):
        read_service(FILE, "airflow-worker", settings)


def test_an_unknown_service_gives_the_list_of_services(env_file: Path) -> None:
    with pytest.raises(SettingsError, match="airflow-scheduler"):
        read_service(FILE, "scheduler", read_env_file(env_file))


def test_showing_a_service_shows_no_secret(env_file: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "slc_ops.production", "service", "--show", "init"],
        cwd=ROOT, env=os.environ | {"SLC_OPS_ENV_FILE": str(env_file)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "AIRFLOW__CORE__FERNET_KEY=***" in result.stdout
    secrets = {n: v for n, v in read_env_file(env_file).items() if n != "S3_ACCESS_KEY"}  # a name, not a key
    assert not [name for name, secret in secrets.items() if secret in result.stdout]


def test_credentials_of_log_sources_reach_the_worker_only(env_file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "docker-compose.yaml"
    copy.write_text(FILE.read_text())
    (tmp_path / ".env.sources").write_text("ALGEBRA_URL=postgresql://reader@db/algebra\n")
    settings = read_env_file(env_file)
    assert "ALGEBRA_URL" in read_service(copy, "airflow-worker", settings).environment
    assert "ALGEBRA_URL" not in read_service(copy, "airflow-apiserver", settings).environment


def test_an_invalid_env_file_is_refused_with_the_line_number(tmp_path: Path) -> None:
    (tmp_path / "env").write_text("# comment\n\nNAME=value=with=signs\nexport OTHER=1\n")
    with pytest.raises(SettingsError, match="env:4: expected NAME=value"):
        read_env_file(tmp_path / "env")
    with pytest.raises(SettingsError, match="make env"):
        read_env_file(tmp_path / "absent")


@pytest.mark.parametrize(
    ("text", "result"),
    [("plain", "plain"), ("${A}", "1"), ("${B:-x}", "x"), ("${A:-x}", "1"), ("$${A}", "${A}"), ("${B}", "")],
)
def test_variables_are_substituted_as_in_compose(text: str, result: str) -> None:
    assert interpolate(text, {"A": "1"}) == result
