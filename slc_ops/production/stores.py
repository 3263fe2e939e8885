"""The servers behind the services: reachability, login and version.

On one PostgreSQL server each owner has a database and a user; both are created if missing, and passwords are
updated. Artifacts are copied to and from a directory, because database dumps do not contain them.
"""

import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from urllib.parse import urlsplit

from slc_ops.base.errors import SettingsError, SourceUnavailable
from slc_ops.production.schemas import Schema, compare

if TYPE_CHECKING:
    import psycopg

P = ParamSpec("P")
T = TypeVar("T")
TRIES = 10
PAUSE = 2.0
FINAL = re.compile(r"password authentication failed|does not exist|permission denied")
"""Errors that persist on retry; libpq distinguishes them only by their text."""


def plain_url(url: str) -> str:
    """Return the URL for libpq, without Celery's prefix and SQLAlchemy's driver.

    >>> plain_url("db+postgresql+psycopg://ann@db/ledger")
    'postgresql://ann@db/ledger'
    """
    return f"postgresql://{url.split('://', 1)[1]}"


def shown(url: str) -> str:
    """Return a URL without user and password.

    >>> shown("redis://:secret@redis:6379/0")
    'redis:6379/0'
    """
    parts = urlsplit(url)
    return f"{parts.netloc.rpartition('@')[2]}{parts.path}"


def retried(call: Callable[P, T]) -> Callable[P, T]:
    """Retry for some time: after a reboot the servers may start later than this process."""

    @wraps(call)
    def patient(*args: P.args, **kwargs: P.kwargs) -> T:
        for _ in range(TRIES - 1):
            with suppress(SourceUnavailable):
                return call(*args, **kwargs)
            time.sleep(PAUSE)
        return call(*args, **kwargs)

    return patient


@retried
def connect(url: str) -> "psycopg.Connection":
    """Connect to PostgreSQL; errors name server, database and user."""
    import psycopg

    try:
        return psycopg.connect(plain_url(url), connect_timeout=10, autocommit=True)
    except psycopg.OperationalError as error:
        reason = " ".join(str(error).split())
        kind = SettingsError if FINAL.search(reason) else SourceUnavailable
        raise kind(
            f"PostgreSQL at {shown(url)} does not let {urlsplit(url).username!r} in ({reason}); "
            "check that it runs, that init has run, and that .env has its password"
        ) from None


def check_schema(url: str, schema: Schema) -> None:
    """Check that the database is reachable and at this code's revision."""
    import psycopg
    from psycopg import sql

    with connect(url) as connection:
        query = sql.SQL("SELECT version_num FROM {}").format(sql.Identifier(schema.table))
        found = None
        with suppress(psycopg.errors.UndefinedTable):
            found = connection.execute(query).fetchone()
    compare(schema, None if found is None else str(found[0]))


@retried
def check_broker(url: str) -> None:
    """Check that Redis accepts our password."""
    import redis

    try:
        client = redis.Redis.from_url(url, socket_connect_timeout=5, socket_timeout=5)
        with client:
            client.ping()
    except redis.RedisError as error:
        raise SourceUnavailable(
            f"Redis at {shown(url)} does not answer ({error}); "
            "check that it runs and that .env has its password"
        ) from None


@retried
def check_bucket(destination: str, endpoint: str | None, *, create: bool = False) -> None:
    """Check access to the artifact store's bucket; destinations other than S3 are skipped."""
    parts = urlsplit(destination)
    if parts.scheme != "s3":
        return
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    options = Config(connect_timeout=5, read_timeout=10, retries={"max_attempts": 1})
    try:
        client = boto3.client("s3", endpoint_url=endpoint or None, config=options)
        if create and parts.netloc not in {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}:
            client.create_bucket(Bucket=parts.netloc)
        client.head_bucket(Bucket=parts.netloc)
    except (BotoCoreError, ClientError) as error:
        raise SourceUnavailable(
            f"the artifact store {endpoint or 'AWS S3'} does not give us bucket {parts.netloc!r} ({error}); "
            "check that it runs, that the bucket exists and that .env has its keys"
        ) from None


def check_space(directory: Path, megabytes: int) -> None:
    """Raise `SettingsError` if the volume is nearly full, before a partial write."""
    if not directory.is_dir():
        raise SettingsError(f"the directory {directory} does not exist; mount the volume or create it")
    free = shutil.disk_usage(directory).free // 2**20
    if free < megabytes:
        raise SettingsError(
            f"the volume of {directory} is full: {free} MB are free, {megabytes} MB are needed "
            "(SLC_OPS_MIN_FREE_MB); free space, then start again"
        )


def ensure_databases(admin_url: str, urls: Iterable[str]) -> None:
    """Create the databases and users of the URLs; only its user may connect to a database."""
    from psycopg import sql

    with connect(admin_url) as connection:
        for url in urls:
            parts = urlsplit(plain_url(url))
            name, password, database = str(parts.username), str(parts.password), parts.path.strip("/")
            user, owned = sql.Identifier(name), sql.Identifier(database)
            if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [name]).fetchone():
                connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(user))
            # Send the SCRAM verifier, because the server may log the statement.
            encrypted = connection.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256")
            verifier = sql.Literal(encrypted.decode())
            connection.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(user, verifier))
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [database]).fetchone():
                connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(owned, user))
            connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(owned))


def save_artifacts(environment: Mapping[str, str], directory: Path) -> int:
    """Copy every artifact into a new directory atomically; return the number of files."""
    from slc_ops.base.files import replacing_directory

    if directory.exists():
        raise SettingsError(f"{directory} exists; name a new directory for this backup")
    with replacing_directory(directory) as temporary:
        _repository(environment).download_artifacts("", str(temporary))
        return _count(temporary)


def restore_artifacts(environment: Mapping[str, str], directory: Path) -> int:
    """Copy the files of :func:`save_artifacts` back into the store; other artifacts stay."""
    if not directory.is_dir():
        raise SettingsError(f"{directory} is no directory; name the one a backup was saved in")
    _repository(environment).log_artifacts(str(directory))
    return _count(directory)


def _repository(environment: Mapping[str, str]) -> Any:
    from slc_ops.base.mlflow_client import quiet_mlflow

    quiet_mlflow()
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    destination = environment.get("MLFLOW_ARTIFACTS_DESTINATION")
    if not destination:
        raise SettingsError("MLFLOW_ARTIFACTS_DESTINATION is not set; run this as the service mlflow")
    return get_artifact_repository(destination)


def _count(directory: Path) -> int:
    return sum(1 for path in directory.rglob("*") if path.is_file())
