"""Addresses for display, without secrets."""

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOGIN = re.compile(r"(://[^\s/?#:@]*):[^\s/?#]*@")
_QUERY = re.compile(r"([?&;])([^=&;\s]+)=([^&;#\s'\"]+)")
_WORDS = re.compile(
    r"(?i)(\b\w*(?:password|passwd|secret|token|api_?key|access_?key|account_?key)\w*['\"]?\s?[=:]\s?)"
    r"('[^']*'|\"[^\"]*\"|(?<=[=])[^&;,\s'\"]+)"
)
"""Assignments as libpq, shells (``NAME=value``), Python and JSON write them; a colon needs a quoted value."""
_HEADER = re.compile(
    r"(?i)(\bauthorization\b['\"]?\s*[:=]\s*['\"]?)(?:(bearer|basic|digest|token)\s+)?[^\s'\"]+"
)
_SECRET = re.compile(r"(?i)pass|pwd|secret|token|key|sig|cred|auth")


def without_secrets(text: str) -> str:
    """Mask passwords in addresses, and query parameters, settings and headers that look like secrets.

    >>> without_secrets("postgresql://ann:hunter2@db/mlflow?sslmode=require&password=hunter2 is away")
    'postgresql://ann@db/mlflow?sslmode=require&password=*** is away'
    >>> without_secrets("password='a b' AWS_SECRET_ACCESS_KEY=x, Authorization: Bearer x is refused")
    'password=*** AWS_SECRET_ACCESS_KEY=***, Authorization: Bearer *** is refused'
    """
    text = _LOGIN.sub(r"\1@", text)
    text = _HEADER.sub(lambda found: f"{found[1]}{found[2] + ' ' if found[2] else ''}***", text)
    text = _QUERY.sub(_hidden, text)
    return _WORDS.sub(r"\1***", text)


def query_secrets(address: str) -> list[str]:
    """Return the values of an address's query parameters that look like secrets.

    >>> query_secrets("s3://bucket/logs?region=eu&secret_key=hunter2")
    ['hunter2']
    """
    return [value for _, name, value in _QUERY.findall(address) if _SECRET.search(unquote(name))]


def sqlite_file(address: str) -> Path | None:
    """Return the file of an SQLite address; None for any other database.

    >>> sqlite_file("sqlite:////data/mlflow.db?timeout=60"), sqlite_file("http://mlflow:5000")
    (PosixPath('/data/mlflow.db'), None)
    """
    parts = urlsplit(address)
    path = parts.path.removeprefix("/")
    if parts.scheme.split("+")[0] != "sqlite" or path in ("", ":memory:"):
        return None
    return Path(path)


def _hidden(found: re.Match[str]) -> str:
    mark, name, value = found.groups()
    return f"{mark}{name}={'***' if _SECRET.search(unquote(name)) else value}"
