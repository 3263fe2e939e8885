"""Validate the secrets of a service: present, strong, and safe inside a URL."""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping

from slc_ops.base.addresses import query_secrets
from slc_ops.base.errors import SettingsError

MIN_LENGTH = 24
MIN_DISTINCT = 8
FERNET = "AIRFLOW__CORE__FERNET_KEY"
REMEDY = "make env writes good ones into a new .env; docs/runbooks.md explains how to rotate one"

_NAMES = re.compile(r"(PASSWORD|SECRET|SECRET_KEY|SECRET_ACCESS_KEY|TOKEN|FERNET_KEY)$")
_OURS = ("AIRFLOW", "MLFLOW_", "SLC_OPS_", "POSTGRES_", "AWS_SECRET_ACCESS_KEY")
_IN_URL = re.compile(r"://[^:/@]*:(.*)@")


def weakness(secret: str) -> str | None:
    """Return the reason why a secret is too weak, or None.

    >>> weakness("changeme")
    'it has 8 characters, at least 24 are needed'
    >>> weakness("a" * 40)
    'it has 1 different characters, at least 8 are needed'
    >>> weakness("0123456789abcdef0123456789abcdef")
    """
    if len(secret) < MIN_LENGTH:
        return f"it has {len(secret)} characters, at least {MIN_LENGTH} are needed"
    if len(set(secret)) < MIN_DISTINCT:
        return f"it has {len(set(secret))} different characters, at least {MIN_DISTINCT} are needed"
    return None


def secrets_in(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield variable name and value of every secret in a service's environment, passwords in URLs included.

    >>> list(secrets_in({"SLC_OPS_LEDGER_URL": "postgresql://ann:hidden@db/ledger", "PATH": "/bin"}))
    [('SLC_OPS_LEDGER_URL', 'hidden')]
    """
    for name, value in sorted(environment.items()):
        if not name.startswith(_OURS):
            continue
        if _NAMES.search(name):
            yield name, value
            continue
        if found := _IN_URL.search(value):
            yield name, found[1]
        if "://" in value:
            yield from ((name, secret) for secret in query_secrets(value))


def check_secrets(environment: Mapping[str, str]) -> None:
    """Raise :class:`SettingsError` for a weak secret, one that is unsafe in its URL, or a bad Fernet key."""
    for name, secret in secrets_in(environment):
        if fault := weakness(secret):
            raise SettingsError(f"the secret in {name} is too weak: {fault}; {REMEDY}")
        if "://" in environment[name] and not re.fullmatch(r"[A-Za-z0-9._~-]+", secret):
            raise SettingsError(
                f"the password in {name} contains characters with a special meaning in URLs; "
                f"use letters, digits and . _ ~ - only; {REMEDY}"
            )
    if FERNET in environment and not all(
        map(_is_fernet, environment[FERNET].split(","))
    ):  # "new,old" during a rotation
        raise SettingsError(f"{FERNET} is not 32 bytes in URL-safe base64, as Fernet needs them; {REMEDY}")


def _is_fernet(key: str) -> bool:
    try:
        return len(base64.urlsafe_b64decode(key)) == 32
    except (ValueError, binascii.Error):
        return False
