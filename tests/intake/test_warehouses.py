"""Snowflake and BigQuery through their real drivers, as far as possible without their servers."""

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from slc_ops.base.errors import InputError, SettingsError, SlcError, SourceUnavailable
from slc_ops.intake.sources.drivers import DRIVERS, Address
from slc_ops.intake.sources.sql import Query
from slc_ops.settings.sources import SqlSource
from tests.intake.conftest import WEEK

QUERY = "SELECT * FROM answers WHERE event_time >= :window_start AND event_time < :window_end"


def source(**settings: Any) -> SqlSource:
    return SqlSource.model_validate({"query": QUERY, "url_env": "LOGS", **settings})


def address_of(url: sa.URL, settings: SqlSource) -> Address:
    return DRIVERS[url.get_backend_name()].address(url, settings)


def asked(home: Path, monkeypatch: pytest.MonkeyPatch, url: str, **settings: Any) -> None:
    monkeypatch.setenv("LOGS", url)
    list(Query(source(**settings), home, WEEK).batches())


def test_a_snowflake_url_is_passed_to_the_driver_with_a_utc_session() -> None:
    url = sa.make_url("snowflake://ann:p%40ss@org-acc/logs/public?warehouse=small&role=reader")
    address, options = address_of(url, source(limit_seconds=60))
    place, _, query = str(address).partition("?")
    assert place == "ann:p%40ss@org-acc/logs/public"
    assert set(query.split("&")) == {
        "TIMEZONE=UTC", "STATEMENT_TIMEOUT_IN_SECONDS=60", "warehouse=small", "role=reader",
    }  # fmt: skip
    assert "p%40ss" not in repr(options)
    found = DRIVERS["snowflake"]
    assert [found.name(name) for name in ("EVENT_ID", "Event", "at")] == ["event_id", "Event", "at"]
    assert found.parameter(source()) == "cast(? as timestamp_tz)"
    assert found.value(WEEK.start) == "2026-01-05 00:00:00+00:00"
    assert found.parameter(source(naive_time_zone="UTC")) == "cast(? as timestamp_ntz)"
    assert found.parameter(source(epoch_unit="s")) == "?"


def test_a_private_key_is_passed_to_the_driver_only() -> None:
    url = sa.make_url("snowflake://ann@acc/logs?private_key_file=/keys/a.p8")
    address, options = address_of(url, source())
    assert options["adbc.snowflake.sql.client_option.jwt_private_key"] == "/keys/a.p8"
    assert options["adbc.snowflake.sql.auth_type"] == "auth_jwt"
    assert "private_key_file" not in str(address)


def test_a_bigquery_url_names_project_and_dataset() -> None:
    _, options = address_of(sa.make_url("bigquery://my-project/logs?location=EU"), source())
    own = "adbc.bigquery.sql"
    assert options == {
        f"{own}.project_id": "my-project", f"{own}.dataset_id": "logs", f"{own}.location": "EU",
    }  # fmt: skip
    assert DRIVERS["bigquery"].parameter(source()) == "cast(? as timestamp)"
    for wrong, said in (
        ("bigquery:///logs", "its project"),
        ("bigquery://p/d?key=1", "no parameter 'key'"),
    ):
        with pytest.raises(SettingsError, match=said):
            address_of(sa.make_url(wrong), source())


@pytest.mark.parametrize(
    ("kind", "connection", "url"),
    [
        (
            "snowflake",
            {"login": "ann", "password": "pw", "schema": "public",
             "extra": {"account": "org-acc", "database": "logs", "warehouse": "small", "role": "reader"}},
            "snowflake://ann:pw@org-acc/logs/public?role=reader&warehouse=small",
        ),
        (
            "google_cloud_platform",
            {"schema": "logs", "extra": {"project": "my-project", "key_path": "/keys/a.json"}},
            "bigquery://my-project/logs?credentials_path=%2Fkeys%2Fa.json",
        ),
        (
            "gcpbigquery",
            {"extra": {"project": "my-project", "keyfile_dict": {"type": "service_account"}}},
            "bigquery://my-project?credentials=%7B%22type%22%3A+%22service_account%22%7D",
        ),
    ],
)  # fmt: skip
def test_an_airflow_connection_names_the_warehouse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, connection: dict[str, Any], url: str
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_LOGS", json.dumps({"conn_type": kind, **connection}))
    query = Query(source(connection="logs", url_env=None), tmp_path, WEEK)
    assert query.url.render_as_string(hide_password=False) == url
    assert "pw" not in str(query.describe())
    assert "keys" not in str(query.describe())


@pytest.mark.parametrize("warehouse", ["snowflake", "bigquery"])
def test_a_missing_driver_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warehouse: str
) -> None:
    monkeypatch.setattr("slc_ops.intake.sources.adbc.find_spec", lambda name: None)
    with pytest.raises(SettingsError) as refusal:
        asked(tmp_path, monkeypatch, f"{warehouse}://ann:secret-1@somewhere/logs")
    assert f"no adbc-driver-{warehouse}); run: pip install 'slc-ops[{warehouse}]'" in str(refusal.value)
    assert "secret-1" not in str(refusal.value)


@pytest.mark.slow
def test_an_unreachable_warehouse_gives_a_retryable_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unused_port: int
) -> None:
    """The real drivers, up to the point where they need the network."""
    monkeypatch.setattr("slc_ops.intake.sources.drivers.LOGIN_SECONDS", 1)
    closed = f"127.0.0.1:{unused_port}"
    for url in (
        f"snowflake://ann:secret-1@{closed}/logs/public?account=acc&protocol=http",
        f"bigquery://my-project/logs?credentials={credentials(closed)}",
    ):
        with pytest.raises(SourceUnavailable, match="connection refused") as refusal:
            asked(tmp_path, monkeypatch, url, limit_seconds=2)
        assert "\n" not in str(refusal.value)
        assert "secret-1" not in str(refusal.value)
        assert "PRIVATE KEY" not in str(refusal.value)


def credentials(closed: str) -> str:
    """An unknown service account whose token address is a closed port."""
    from urllib.parse import quote

    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    account = {
        "type": "service_account", "project_id": "my-project", "private_key_id": "1",
        "private_key": key.decode(), "client_email": "a@my-project.iam.gserviceaccount.com",
        "client_id": "1", "token_uri": f"http://{closed}/token",
    }  # fmt: skip
    return quote(json.dumps(account), safe="")


@pytest.mark.parametrize(
    ("url", "query", "kind", "said"),
    [
        ("snowflake://ann:secret-1@h:80/logs?account=a&protocol=http", QUERY, SettingsError, "in the clear"),
        ("snowflake://ann:secret-1@acc/logs", QUERY.replace("SELECT", "DELETE"), InputError, "must begin"),
        ("bigquery://p/d?credentials_path=nowhere.json", QUERY, SlcError, "nowhere.json"),
        ("bigquery://p/d?credentials={}", QUERY, SlcError, "bigquery://p/d"),
    ],
    ids=["clear-text", "no-select", "no-credentials", "odd-credentials"],
)  # fmt: skip
def test_errors_of_a_warehouse_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, query: str, kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said) as refusal:
        asked(tmp_path, monkeypatch, url, query=query)
    assert "\n" not in str(refusal.value)
    assert "secret-1" not in str(refusal.value)


@pytest.mark.parametrize("module", sorted(each.module for each in DRIVERS.values()))
def test_every_driver_can_be_loaded(module: str) -> None:
    import importlib

    assert importlib.import_module(f"{module}.dbapi").apilevel == "2.0"
