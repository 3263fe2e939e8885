"""Misconfigurations are reported in one line before a service starts, with a real PostgreSQL and Redis."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slc_ops.base.errors import SettingsError, SourceUnavailable
from slc_ops.production import schemas, stores
from slc_ops.production.stores import check_broker, check_schema, check_space, ensure_databases
from tests.production import servers

pytestmark = pytest.mark.slow

PASSWORD = "0123456789abcdef" * 4
OTHER = PASSWORD[::-1]


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """The address of a server, with its administrator."""
    with servers.postgres(PASSWORD) as (port, _):
        yield f"postgresql://postgres:{PASSWORD}@127.0.0.1:{port}"


@pytest.fixture(scope="module")
def ledger(postgres: str) -> str:
    """The address of a ledger that is up to date."""
    from slc_ops.registry.ledger import Ledger

    address = postgres.replace("//postgres:", "//keeper:") + "/book"
    ensure_databases(f"{postgres}/postgres", [address])
    Ledger(address)
    return address


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker."""
    with servers.redis(PASSWORD, tmp_path_factory.mktemp("redis")) as port:
        yield f"redis://:{PASSWORD}@127.0.0.1:{port}/0"


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "PAUSE", 0.01)


def test_a_ledger_that_is_up_to_date_passes(ledger: str) -> None:
    check_schema(ledger, schemas.LEDGER)


def test_a_wrong_password_is_distinguished_from_an_absent_server(ledger: str) -> None:
    with pytest.raises(SettingsError, match=r"does not let 'keeper' in \(.*password authentication failed"):
        check_schema(ledger.replace(PASSWORD, OTHER), schemas.LEDGER)
    absent = f"postgresql://keeper:{PASSWORD}@127.0.0.1:{servers.free_port()}/book"
    with pytest.raises(SourceUnavailable, match=r"(?i)connection refused") as refusal:
        check_schema(absent, schemas.LEDGER)
    assert PASSWORD not in str(refusal.value)


def test_a_missing_database_is_named(postgres: str) -> None:
    with pytest.raises(SettingsError, match='database "nowhere" does not exist'):
        check_schema(f"{postgres}/nowhere", schemas.LEDGER)


def test_an_empty_database_and_another_schema_version_are_refused(postgres: str, ledger: str) -> None:
    with pytest.raises(SettingsError, match="the ledger is empty; run init"):
        check_schema(f"{postgres}/postgres", schemas.LEDGER)
    with stores.connect(ledger) as connection:
        connection.execute("UPDATE slc_ledger_schema SET version_num = '9999'")
    try:
        with pytest.raises(SettingsError, match="revision 9999, this version needs"):
            check_schema(ledger, schemas.LEDGER)
    finally:
        with stores.connect(ledger) as connection:
            connection.execute("UPDATE slc_ledger_schema SET version_num = %s", [schemas.LEDGER.head])


def test_creating_databases_again_sets_passwords_and_keeps_data(postgres: str, ledger: str) -> None:
    rotated = ledger.replace(PASSWORD, OTHER)
    ensure_databases(f"{postgres}/postgres", [rotated])
    try:
        check_schema(rotated, schemas.LEDGER)
        with pytest.raises(SettingsError, match="password"):
            check_schema(ledger, schemas.LEDGER)
    finally:
        ensure_databases(f"{postgres}/postgres", [ledger])


def test_a_broker_with_another_password_or_none_is_refused(redis: str) -> None:
    check_broker(redis)
    with pytest.raises(SourceUnavailable, match="does not answer"):
        check_broker(redis.replace(PASSWORD, OTHER))
    with pytest.raises(SourceUnavailable, match="does not answer"):
        check_broker(f"redis://:{PASSWORD}@127.0.0.1:{servers.free_port()}/0")


def test_a_full_volume_is_named(tmp_path: Path) -> None:
    check_space(tmp_path, 1)
    with pytest.raises(SettingsError, match=rf"the volume of {tmp_path} is full: \d+ MB are free"):
        check_space(tmp_path, 10**9)
    with pytest.raises(SettingsError, match="does not exist"):
        check_space(tmp_path / "not mounted", 1)


def run(*command: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("AIRFLOW", "MLFLOW_", "SLC_OPS_"))}
    return subprocess.run(
        [sys.executable, "-m", "slc_ops.production", *command],
        env=kept | variables, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_a_service_starts_only_if_all_checks_pass(ledger: str, redis: str, tmp_path: Path) -> None:
    good = {"SLC_OPS_LEDGER_URL": ledger, "AIRFLOW__CELERY__BROKER_URL": redis, "SLC_OPS_HOME": str(tmp_path)}
    assert run("run", "echo", "I run", **good).stdout == "I run\n"
    faults = {
        "SLC_OPS_LEDGER_URL": "postgresql://keeper:weak@127.0.0.1/book",
        "SLC_OPS_MIN_FREE_MB": "999999999",
        "SLC_OPS_DEPLOYMENTS": str(tmp_path),
    }
    for name, value in faults.items():
        refusal = run("run", "echo", "I run", **(good | {name: value}))
        assert refusal.returncode == 2, name
        assert refusal.stdout == ""
        assert refusal.stderr.startswith("slc-ops: ")
        assert len(refusal.stderr.splitlines()) == 1


def test_init_names_every_missing_setting() -> None:
    refusal = run("init")
    assert refusal.returncode == 2
    assert "POSTGRES_ADMIN_URL" in refusal.stderr
    assert "MLFLOW_TRACKING_PASSWORD" in refusal.stderr
