"""A missing, weak or malformed secret is named without being shown."""

import base64

import pytest

from slc_ops.base.errors import SettingsError
from slc_ops.base.passwords import check_secrets

GOOD = "0123456789abcdef" * 4
FERNET = base64.urlsafe_b64encode(bytes(range(32))).decode()


def test_valid_secrets_pass() -> None:
    check_secrets(
        {
            "SLC_OPS_LEDGER_URL": f"postgresql://slc_ledger:{GOOD}@db:5432/slc_ledger",
            "AIRFLOW__CORE__FERNET_KEY": FERNET,
            "MLFLOW_TRACKING_PASSWORD": GOOD,
            "HOME": "weak, but none of ours",
        }
    )


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("MLFLOW_TRACKING_PASSWORD", "", "0 characters"),
        ("AIRFLOW_ADMIN_PASSWORD", "airflow", "7 characters"),
        ("SLC_OPS_METRICS_TOKEN", "x" * 64, "1 different"),
        ("AIRFLOW__CELERY__BROKER_URL", "redis://:hunter2@redis:6379/0", "7 characters"),
        ("AIRFLOW__CELERY__BROKER_URL", "redis://:@redis:6379/0", "0 characters"),
        ("SLC_OPS_LEDGER_URL", f"postgresql://me:{GOOD}/with@sign@db/ledger", "special meaning in URLs"),
        ("AIRFLOW__CORE__FERNET_KEY", GOOD, "not 32 bytes"),
        ("AIRFLOW__CORE__FERNET_KEY", "é" + FERNET, "not 32 bytes"),
    ],
)
def test_an_invalid_secret_is_refused_by_name(name: str, value: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint) as refusal:
        check_secrets({name: value})
    assert name in str(refusal.value)
    assert "make env" in str(refusal.value)
    for secret in ("hunter2", GOOD):
        assert secret not in str(refusal.value)


def test_both_keys_are_accepted_while_the_fernet_key_is_rotated() -> None:
    check_secrets({"AIRFLOW__CORE__FERNET_KEY": f"{FERNET},{FERNET[::-1].replace('=', '')}="})
