"""The servers behind the services: can they be reached, do they let us in, are they of the right version?"""

import re
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from slc_ops.base.errors import SettingsError, SourceUnavailable
from slc_ops.production.schemas import Schema, compare

if TYPE_CHECKING:
    import psycopg

TRIES = 10
PAUSE = 2.0
FINAL = re.compile(r"password authentication failed|does not exist|permission denied")
"""What waiting does not cure; libpq tells these apart by their text only."""


def plain_url(url: str) -> str:
    """The address as PostgreSQL's own library reads it, without Celery's prefix and SQLAlchemy's driver.

    >>> plain_url("db+postgresql+psycopg://ann@db/ledger")
    'postgresql://ann@db/ledger'
    """
    return f"postgresql://{url.split('://', 1)[1]}"


def shown(url: str) -> str:
    """An address without its user and password.

    >>> shown("redis://:secret@redis:6379/0")
    'redis:6379/0'
    """
    parts = urlsplit(url)
    return f"{parts.netloc.rpartition('@')[2]}{parts.path}"


def patiently(what: Callable[[], None]) -> None:
    """Try for a while: after a reboot the servers behind us may need longer than we do."""
    for left in reversed(range(TRIES)):
        try:
            return what()
        except SourceUnavailable:
            if not left:
                raise
            time.sleep(PAUSE)


def connect(url: str) -> "psycopg.Connection":
    """A connection to PostgreSQL, or an error that names server, database and user."""
    import psycopg

    try:
        return psycopg.connect(plain_url(url), connect_timeout=10, autocommit=True)
    except psycopg.OperationalError as error:
        reason = " ".join(str(error).split())
        kind = SettingsError if FINAL.search(reason) else SourceUnavailable
        raise kind(
            f"PostgreSQL at {shown(url)} does not let {urlsplit(url).username!r} in ({reason}); "
            "check that it runs, that init has run, and that .env has the password it knows"
        ) from None


def check_database(url: str) -> None:
    """The database lets us in; its tables are its owner's own business."""
    connect(url).close()


def check_schema(url: str, schema: Schema) -> None:
    """The database answers, and is at this code's revision."""
    import psycopg
    from psycopg import sql

    with connect(url) as connection:
        query = sql.SQL("SELECT version_num FROM {}").format(sql.Identifier(schema.table))
        found = None
        with suppress(psycopg.errors.UndefinedTable):
            found = connection.execute(query).fetchone()
    compare(schema, None if found is None else str(found[0]))


def check_broker(url: str) -> None:
    """Redis answers to our password."""
    import redis

    try:
        client = redis.Redis.from_url(url, socket_connect_timeout=5, socket_timeout=5)
        with client:
            client.ping()
    except redis.RedisError as error:
        raise SourceUnavailable(
            f"Redis at {shown(url)} does not answer ({error}); "
            "check that it runs and that .env has the password it knows"
        ) from None


def check_bucket(destination: str, endpoint: str | None, *, create: bool = False) -> None:
    """The artifact store has our bucket and lets us in; a destination that is not S3 is left alone."""
    parts = urlsplit(destination)
    if parts.scheme != "s3":
        return
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    options = Config(connect_timeout=5, read_timeout=10, retries={"max_attempts": 1})
    try:
        client = boto3.client("s3", endpoint_url=endpoint or None, config=options)
        present = {bucket["Name"] for bucket in client.list_buckets()["Buckets"]} if create else None
        if present is not None and parts.netloc not in present:
            client.create_bucket(Bucket=parts.netloc)
        client.head_bucket(Bucket=parts.netloc)
    except (BotoCoreError, ClientError) as error:
        raise SourceUnavailable(
            f"the artifact store {endpoint or 'AWS S3'} does not give us bucket {parts.netloc!r} ({error}); "
            "check that it runs, that the bucket exists and that .env has its keys"
        ) from None


def check_space(directory: Path, megabytes: int) -> None:
    """A volume that is nearly full is said before something is written to it half."""
    if not directory.is_dir():
        raise SettingsError(f"the directory {directory} does not exist; mount the volume or create it")
    free = shutil.disk_usage(directory).free // 2**20
    if free < megabytes:
        raise SettingsError(
            f"the volume of {directory} is full: {free} MB are free, {megabytes} MB are needed "
            "(SLC_OPS_MIN_FREE_MB); make room, then start again"
        )
