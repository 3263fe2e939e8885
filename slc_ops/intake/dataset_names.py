"""Names of a source's data sets for OpenLineage: namespace and name, by its naming specification."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from slc_ops.base.lineage import Data

PORTS = {"postgres": 5432, "mysql": 3306, "redshift": 5439}
SCHEMAS = {"postgres": "public"}
_TOKEN = re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/|[()]|[\w$.]+", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][\w$]*(\.[A-Za-z_][\w$]*){0,2}")


def at(location: str, home: Path) -> Data:
    """Return the data set of a path or an object store address.

    >>> at("s3://logs/answers/2026", Path("/data"))
    Data(namespace='s3://logs', name='answers/2026', version=None, rows=None)
    >>> at("lake/demo", Path("/data"))
    Data(namespace='file', name='/data/lake/demo', version=None, rows=None)
    """
    parts = urlsplit(location)
    if parts.scheme in ("", "file"):
        return Data("file", str(home / parts.path if not parts.scheme else Path(parts.path)))
    return Data(f"{parts.scheme}://{parts.netloc}", parts.path.strip("/") or "/")


def tables_of(query: str) -> list[str]:
    """Return the tables that a SELECT reads, in order, each once; names of subqueries count as tables.

    >>> tables_of("SELECT * FROM app.answers a JOIN pupils p USING (id) -- FROM nowhere")
    ['app.answers', 'pupils']
    >>> tables_of("SELECT extract(epoch FROM at) FROM (SELECT * FROM logs WHERE a IS DISTINCT FROM b) x")
    ['logs']
    """
    found: dict[str, None] = {}
    selects: list[bool | None] = [True]  # per open parenthesis: does it contain a SELECT? None: unknown
    before, expected = "", False
    for token in _TOKEN.findall(query):
        if token.startswith(("'", "--", "/*")):
            continue
        word = token.lower()
        if word == ")":
            selects = selects[:-1] or [True]
        elif word != "(":
            if selects[-1] is None:
                selects[-1] = word in ("select", "with")
            if expected and _NAME.fullmatch(token):
                found[token] = None
        expected = word == "join" or (word == "from" and bool(selects[-1]) and before != "distinct")
        if word == "(":
            selects.append(None)
        before = word
    return list(found)


def in_database(url: Any, query: str) -> list[Data]:
    """Return the tables of a query in the database of a SQLAlchemy URL, without user and password.

    >>> import sqlalchemy as sa
    >>> in_database(sa.make_url("postgresql+psycopg://ann:x@db.example/school"), "SELECT 1 FROM answers")
    [Data(namespace='postgres://db.example:5432', name='school.public.answers', version=None, rows=None)]
    """
    kind = url.get_backend_name()
    kind = "postgres" if kind == "postgresql" else kind
    if kind in ("sqlite", "duckdb"):
        return [Data(f"{kind}://{url.database}", table) for table in tables_of(query)]
    port = url.port or PORTS.get(kind)
    namespace = f"{kind}://{url.host}" + (f":{port}" if port else "")
    found = []
    for table in tables_of(query):
        missing = 2 - table.count(".")
        known = [*([SCHEMAS[kind]] if missing == 2 and kind in SCHEMAS else []), table]
        found.append(Data(namespace, ".".join([*([url.database or ""] if missing else []), *known])))
    return found
