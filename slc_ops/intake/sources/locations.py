"""Resolve the path or URI of a deployment to a filesystem."""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from slc_ops.base.errors import InputError, SourceUnavailable
from slc_ops.settings.sources import Located

AZURE_KEY = "AZURE_STORAGE_ACCOUNT_KEY"
AZURE_TOKEN = "AZURE_STORAGE_SAS_TOKEN"  # noqa: S105 - the variable's name

PATIENCE = 60.0
"""Timeout of a store's response, in seconds."""


def locate(source: Located, home: Path) -> tuple[pafs.FileSystem, str]:
    """Return a filesystem and the lake's path in it; local paths are relative to ``home``."""
    if "://" not in source.path:
        return pafs.LocalFileSystem(), str(home / source.path)
    parts = urlsplit(source.path)
    root = f"{parts.username or parts.netloc}{parts.path}".rstrip("/")  # Azure's container precedes "@"
    try:
        if parts.scheme in ("abfs", "abfss") and not parts.query:
            return azure(source), root
        if parts.scheme in ("gs", "gcs") and not parts.query:
            return google(source), root
        if source.endpoint or source.region or source.anonymous:
            return s3(source), root
        filesystem, root = pafs.FileSystem.from_uri(source.path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise InputError(f"{source.path} cannot be opened: {error}") from None
    return filesystem, root


TABLES = (
    (re.compile(r"(^|/)_delta_log(/|$)"), "a Delta table", "use kind: delta with its path"),
    (
        re.compile(r"(^|/)metadata/[^/]*\.metadata\.json$"),
        "an Iceberg table",
        "use kind: iceberg with its catalogue and name",
    ),
    (re.compile(r"(^|/)\.hoodie(/|$)"), "a Hudi table", "read it through a query engine with kind: sql"),
)


def refuse_tables(what: str, paths: Iterable[str]) -> None:
    """Raise for files of a table format, which include deleted and replaced rows."""
    for path in paths:
        for mark, table, remedy in TABLES:
            if mark.search(path):
                raise InputError(
                    f"{what} holds {table} ({path}), whose files also hold rows that were deleted; {remedy}"
                )


def server(source: Located) -> dict[str, str]:
    """Return the address of another server with the same API."""
    endpoint = urlsplit(source.endpoint or "")
    return {"endpoint_override": endpoint.netloc, "scheme": endpoint.scheme} if source.endpoint else {}


def s3(source: Located) -> pafs.FileSystem:
    """Open S3 or a compatible server. Credentials come from the environment or the machine."""
    return pafs.S3FileSystem(
        region=source.region or ("us-east-1" if source.endpoint else None),
        anonymous=source.anonymous,
        connect_timeout=10,
        request_timeout=PATIENCE,
        **server(source),
    )


def google(source: Located) -> pafs.FileSystem:
    """Open Google Cloud Storage or a compatible server; credentials come from the machine."""
    return pafs.GcsFileSystem(
        anonymous=source.anonymous, retry_time_limit=timedelta(seconds=PATIENCE), **server(source)
    )


def azure(source: Located) -> pafs.FileSystem:
    """Open Azure blob storage: ``abfs://container@account.dfs.core.windows.net/prefix``.

    An account key or token comes from the environment; without one the identity of the machine or of the
    environment applies (``AZURE_CLIENT_ID`` and the like).
    """
    parts = urlsplit(source.path)
    account = (parts.hostname or "").partition(".")[0]
    if not (parts.username and account):
        raise InputError(
            f"{source.path} names no container and account; write "
            "abfs://container@account.dfs.core.windows.net/prefix"
        )
    where = {}
    if source.endpoint:
        endpoint = urlsplit(source.endpoint)
        for service in ("blob", "dfs"):
            where[f"{service}_storage_authority"] = endpoint.netloc
            where[f"{service}_storage_scheme"] = endpoint.scheme
    return pafs.AzureFileSystem(
        account,
        account_key=os.environ.get(AZURE_KEY),
        sas_token=os.environ.get(AZURE_TOKEN),
        **where,
    )


@contextmanager
def reading(what: str, filesystem: pafs.FileSystem) -> Iterator[None]:
    """Convert filesystem errors; a transient error of a remote filesystem is :class:`SourceUnavailable`."""
    try:
        yield
    except (OSError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        text = " ".join(str(error).split())
        if (
            isinstance(error, OSError)
            and not isinstance(filesystem, pafs.LocalFileSystem)
            and _transient(error)
        ):
            raise SourceUnavailable(f"{what} cannot be reached: {text}; try again later") from None
        if "encrypt" in text or "decrypt" in text:
            raise InputError(
                f"{what} is encrypted, and there is no setting for its keys; write the log unencrypted "
                "to a place with access rights of its own, or read it through a database"
            ) from None
        raise InputError(f"{what} cannot be read: {text}") from None


def _transient(error: OSError) -> bool:
    return not isinstance(error, (FileNotFoundError, PermissionError)) and "ACCESS_DENIED" not in str(error)
