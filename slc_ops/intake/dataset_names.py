"""How OpenLineage calls the data sets of a source: a namespace and a name, by its naming specification."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from slc_ops.settings.deployments import Deployment
from slc_ops.settings.sources import (
    DeltaSource,
    DuckdbSource,
    FilesSource,
    IcebergSource,
    LakeSource,
    SqlSource,
)

PORTS = {"postgres": 5432, "mysql": 3306, "redshift": 5439}
SCHEMAS = {"postgres": "public"}
_TABLE = re.compile(r"\b(?:from|join)\s+([A-Za-z_][\w$]*(?:\.[A-Za-z_][\w$]*){0,2})", re.IGNORECASE)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True)
class DatasetName:
    """A data set for lineage."""

    namespace: str
    name: str


def at(location: str, home: Path) -> DatasetName:
    """A path or an address of an object store.

    >>> at("s3://logs/answers/2026", Path("/data"))
    DatasetName(namespace='s3://logs', name='answers/2026')
    >>> at("lake/demo", Path("/data"))
    DatasetName(namespace='file', name='/data/lake/demo')
    """
    parts = urlsplit(location)
    if parts.scheme in ("", "file"):
        return DatasetName("file", str(home / parts.path if not parts.scheme else Path(parts.path)))
    return DatasetName(f"{parts.scheme}://{parts.netloc}", parts.path.strip("/") or "/")


def tables_of(query: str) -> list[str]:
    """The tables that a SELECT reads, in order, each once; names of its own subqueries are not told apart.

    >>> tables_of("SELECT * FROM app.answers a JOIN pupils p USING (id) -- FROM nowhere")
    ['app.answers', 'pupils']
    """
    return list(dict.fromkeys(_TABLE.findall(_COMMENT.sub(" ", query))))


def in_database(url: Any, query: str) -> list[DatasetName]:
    """The tables of a query in the database of a SQLAlchemy URL; no user, no password.

    >>> import sqlalchemy as sa
    >>> in_database(sa.make_url("postgresql+psycopg://ann:x@db.example/school"), "SELECT 1 FROM answers")
    [DatasetName(namespace='postgres://db.example:5432', name='school.public.answers')]
    """
    kind = url.get_backend_name()
    kind = "postgres" if kind == "postgresql" else kind
    if kind in ("sqlite", "duckdb"):
        return [DatasetName(f"{kind}://{url.database}", table) for table in tables_of(query)]
    port = url.port or PORTS.get(kind)
    namespace = f"{kind}://{url.host}" + (f":{port}" if port else "")
    found = []
    for table in tables_of(query):
        missing = 2 - table.count(".")
        known = [*([SCHEMAS[kind]] if missing == 2 and kind in SCHEMAS else []), table]
        found.append(DatasetName(namespace, ".".join([*([url.database or ""] if missing else []), *known])))
    return found


def read_from(deployment: Deployment, home: Path) -> list[DatasetName]:
    """The data sets that a deployment's rows and labels come from."""
    both = [each for each in (deployment.source, deployment.labels) if each is not None]
    return [name for source in both for name in _of(source, home)]


def _of(source: Any, home: Path) -> list[DatasetName]:
    if isinstance(source, LakeSource | DeltaSource):
        return [at(source.path, home)]
    if isinstance(source, FilesSource):
        return [at(path, home) for path in source.paths]
    if isinstance(source, IcebergSource):
        return [DatasetName(f"iceberg://{source.catalog}", source.table)]
    if isinstance(source, DuckdbSource):
        file = at(source.path, home).name
        tables = [source.table] if source.table else tables_of(source.query or "")
        return [DatasetName(f"duckdb://{file}", table) for table in tables]
    if isinstance(source, SqlSource):
        from slc_ops.intake.sources.sql import database_url

        return in_database(database_url(source, home), source.query)
    return [DatasetName("slc_ops", f"{source.kind}")]
