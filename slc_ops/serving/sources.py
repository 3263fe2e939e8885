"""Sources of the champion: the alias's target, and the files of its version."""

import base64
import json
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from http.client import HTTPException
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import SplitResult, quote, unquote, urlencode, urlsplit

import pyarrow as pa
from pyarrow.fs import FileSystem

from slc_ops.base.addresses import without_secrets
from slc_ops.base.digests import digest_text
from slc_ops.base.errors import RegistryError, SlcError
from slc_ops.base.extras import MissingExtra, missing_extra
from slc_ops.base.mlflow_client import connect
from slc_ops.base.names import RETIRED_TAG, alias_name, model_name
from slc_ops.parameters import GOLDEN, IN_MODEL, PARAMS
from slc_ops.parameters.storage import MAX_JSON, stated_sizes
from slc_ops.serving.pointer import Named, NoAlias, Pointer, Retired

Answer = TypeVar("Answer")
_LEFT_BEHIND = 3
_CHUNK = 1 << 20
_MAX_ANSWER_BYTES = 4 << 20  # of an answer that describes a version


def registry_name(tracking_uri: str) -> str:
    """Return a directory name for a registry, the same for all credentials.

    >>> registry_name("http://ann:secret@mlflow:5000/") == registry_name("http://mlflow:5000")
    True
    """
    parts = urlsplit(tracking_uri)
    path = parts.path.rstrip("/")
    if parts.scheme.startswith("sqlite"):
        path = os.path.abspath(path[1:])
    address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{path}"
    return digest_text(address)[:16]


class Source(Protocol):
    """A registry; every failure raises a typed error."""

    def pointer(self) -> Named: ...

    def fetch(self, pointer: Pointer, into: Path) -> None: ...


def open_source(
    tracking_uri: str, deployment: str, alias: str, timeout: float, schema: str | None = None
) -> Source:
    """Return a source by REST for a tracking server, by MLflow's client for a database address."""
    model, alias = model_name(deployment, schema), alias_name(alias)
    if urlsplit(tracking_uri).scheme in ("http", "https"):
        return RestSource(tracking_uri, model, alias, timeout)
    return ClientSource(tracking_uri, model, alias)


class Bounded:
    """A source with a time limit for each check, which starts with :meth:`pointer`.

    Name servers, handshakes, databases and stores have their own timeouts or none, and a server that sends
    single bytes never exceeds a timeout per byte. So a thread does the work and is abandoned if it does not
    end; at most a few are abandoned.
    """

    def __init__(self, source: Source, seconds: float) -> None:
        self._source, self._seconds, self._until = source, seconds, 0.0
        self._workers: list[threading.Thread] = []

    def pointer(self) -> Named:
        """Start a check and its clock; return the alias's target."""
        self._until = time.monotonic() + self._seconds
        return self._within(self._source.pointer)

    def fetch(self, pointer: Pointer, into: Path) -> None:
        """Download the parameter set's files into an existing directory."""
        self._within(lambda: self._source.fetch(pointer, into))

    def _within(self, work: Callable[[], Answer]) -> Answer:
        late = f"the registry did not answer within {self._seconds:g} s"
        self._workers = [each for each in self._workers if each.is_alive()]
        if len(self._workers) >= _LEFT_BEHIND:
            raise RegistryError(f"{late}, and {_LEFT_BEHIND} earlier requests have not ended yet")
        answer: Future[Answer] = Future()

        def run() -> None:
            try:
                answer.set_result(work())
            except BaseException as error:  # passed on to the waiting caller
                answer.set_exception(error)

        worker = threading.Thread(target=run, name="slc-ops-registry", daemon=True)
        self._workers.append(worker)
        worker.start()
        try:
            return answer.result(max(self._until - time.monotonic(), 0.0))
        except SlcError:
            raise
        except Exception as error:
            if not answer.done():
                raise RegistryError(late) from None
            raise RegistryError(f"the registry's answer cannot be used: {error!r:.200}") from None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuse redirects, because credentials are for the configured host only."""

    def redirect_request(self, *args: Any, **options: Any) -> None:
        return None


class Answered(RegistryError):
    """MLflow returned an error with the HTTP ``status``."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class RestSource:
    """A tracking server over HTTP, with the standard library: serving hosts have no MLflow.

    The alias is read by REST, the files through the server or from its store. Every failure raises
    :class:`RegistryError` with the address.
    """

    def __init__(self, tracking_uri: str, model: str, alias: str, timeout: float) -> None:
        parts = urlsplit(tracking_uri)
        host = parts.netloc.rpartition("@")[2]
        self._base = f"{parts.scheme}://{host}{parts.path.rstrip('/')}"
        self._model, self._alias, self._timeout = model, alias, timeout
        self._authorization = _authorization(parts)
        self._opener = urllib.request.build_opener(_NoRedirect)

    def pointer(self) -> Named:
        """Return the alias's target with one GET; without the alias, a second one checks for a retirement."""
        path = "/api/2.0/mlflow/registered-models"
        try:
            answer = self._get_json(f"{path}/alias", name=self._model, alias=self._alias)
        except Answered as error:
            if error.status not in (400, 404):
                raise
            if self._alias != "champion":
                raise NoAlias(str(error)) from None
            model = self._get_json(f"{path}/get", name=self._model)
            if (retired := _retired(model)) is None:
                raise
            return retired
        try:
            found = answer["model_version"]
            tags = {tag["key"]: tag.get("value", "") for tag in found.get("tags", [])}
            return Pointer.from_tags(found["version"], found.get("run_id", ""), found["source"], tags)
        except (KeyError, TypeError, AttributeError):
            raise RegistryError(f"MLflow at {self._base} described no version") from None

    def fetch(self, pointer: Pointer, into: Path) -> None:
        """Download the parameter set's files into an existing directory."""
        parts = urlsplit(pointer.source)
        if parts.scheme != "mlflow-artifacts":
            _copy_from_store(pointer.source, into)
            return
        root = quote(f"/api/2.0/mlflow-artifacts/artifacts{parts.path}/{IN_MODEL}")
        _fetch_files(lambda name, longest: self._chunks(f"{root}/{name}", longest), into)

    def _get_json(self, path: str, **query: str) -> Any:
        try:
            return json.loads(b"".join(self._chunks(f"{path}?{urlencode(query)}", _MAX_ANSWER_BYTES)))
        except (ValueError, RecursionError):
            raise RegistryError(f"MLflow at {self._base} answered something that is not JSON") from None

    def _chunks(self, address: str, longest: int) -> Iterator[bytes]:
        """Yield the bytes of an answer; :class:`Bounded` sets the deadline for the whole."""
        request = urllib.request.Request(f"{self._base}{address}")  # noqa: S310 - http(s) only, by open_source
        if self._authorization:
            request.add_header("Authorization", self._authorization)
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                yield from _limited(answer.read1, longest, f"MLflow at {self._base} sends")
                if answer.length:
                    raise ConnectionError(f"the connection broke off; {answer.length} bytes are missing")
        except urllib.error.HTTPError as error:
            raise Answered(
                f"MLflow at {self._base} answered {error.code}: {_message(error)}", error.code
            ) from None
        except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
            reason = getattr(error, "reason", None) or error
            raise RegistryError(f"MLflow at {self._base} cannot be reached: {reason}") from None


class ClientSource:
    """A database (SQLite, PostgreSQL): MLflow's client reads the alias; the files are in the store."""

    def __init__(self, tracking_uri: str, model: str, alias: str) -> None:
        self._uri, self._model, self._alias = tracking_uri, model, alias
        self._client: Any = None

    def pointer(self) -> Named:
        """Return the alias's target with one query; without the alias, a second checks for a retirement."""
        try:
            self._client = self._client or connect(self._uri)
            found = self._pointed()
        except SlcError:
            raise
        except ModuleNotFoundError as error:
            if missing_extra(error) is None:
                raise
            raise MissingExtra(
                f"following {without_secrets(self._uri)}, a database of MLflow's,", {"mlflow": "mlflow"}
            ) from None
        except Exception as error:  # SQL drivers' errors pass through MLflow; serving must not stop
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise RegistryError(f"MLflow's database does not answer: {without_secrets(first)}") from None
        if isinstance(found, Retired):
            return found
        return Pointer.from_tags(found.version, found.run_id or "", found.source, found.tags)

    def _pointed(self) -> Any:
        from mlflow.exceptions import MlflowException

        try:
            return self._client.get_model_version_by_alias(self._model, self._alias)
        except MlflowException as error:
            if self._alias != "champion":
                missing = error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")
                raise (NoAlias(str(error)) if missing else error) from None
            model = self._client.get_registered_model(self._model)
            retired = Retired.from_tag((model.tags or {}).get(RETIRED_TAG))
            if self._alias in model.aliases or retired is None:
                raise
            return retired

    def fetch(self, pointer: Pointer, into: Path) -> None:
        """Download the parameter set's files into an existing directory."""
        _copy_from_store(pointer.source, into)


def _retired(answer: Any) -> Retired | None:
    """Return the retirement in MLflow's description of a registered model, or None."""
    try:
        tags = {tag["key"]: tag.get("value") for tag in answer["registered_model"].get("tags", [])}
        return Retired.from_tag(tags.get(RETIRED_TAG))
    except (KeyError, TypeError, AttributeError):
        return None


def _limited(read: Callable[[int], bytes], longest: int, what: str) -> Iterator[bytes]:
    """Yield what ``read`` returns; more than ``longest`` bytes raise :class:`RegistryError`."""
    received = 0
    while chunk := read(_CHUNK):
        received += len(chunk)
        if received > longest:
            raise RegistryError(f"{what} more than the {longest:,} bytes that were expected")
        yield chunk


def _fetch_files(chunks: Callable[[str, int], Iterator[bytes]], into: Path) -> None:
    """Download params.json first, because it lists the effects' files and their sizes."""

    def download(name: str, longest: int) -> None:
        with (into / name).open("wb") as file:
            file.writelines(chunks(name, longest))

    download(PARAMS, MAX_JSON)
    download(GOLDEN, MAX_JSON)
    for name, size in stated_sizes(into).items():
        download(name, size)


def _copy_from_store(source: str, into: Path) -> None:
    """Copy from a directory, or from a store that pyarrow supports (S3, Google, Azure, HDFS).

    Only this host's environment sets a store's endpoint, not the registry: pyarrow would send this host's
    credentials to the ``endpoint_override`` of an address.
    """
    named = urlsplit(source)
    if named.scheme not in ("", "file") and (named.query or named.fragment):
        raise RegistryError(
            without_secrets(
                f"the registry names {source!r:.200} with options of its own; expected an address"
            )
        )
    endpoint = os.environ.get("MLFLOW_S3_ENDPOINT_URL")
    address = source
    if endpoint and source.startswith("s3://"):
        parts = urlsplit(endpoint)
        address = f"{source}?scheme={parts.scheme}&endpoint_override={parts.netloc}"
    try:
        store, root = FileSystem.from_uri(address)

        def chunks(name: str, longest: int) -> Iterator[bytes]:
            with store.open_input_stream(f"{root}/{IN_MODEL}/{name}") as found:
                yield from _limited(found.read, longest, f"{name} of the version has")

        _fetch_files(chunks, into)
    except FileNotFoundError:
        raise RegistryError(
            without_secrets(f"the version has no parameter set: nothing at {source}/{IN_MODEL}")
        ) from None
    except (pa.ArrowException, OSError) as error:
        raise RegistryError(
            without_secrets(f"the files of the version at {source} cannot be read: {error}")
        ) from None


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read(4096))["message"])
    except (ValueError, KeyError, TypeError, OSError):
        return str(error.reason)


def _authorization(parts: SplitResult) -> str | None:
    """Return the header that MLflow's own client would send for the same environment."""
    token = os.environ.get("MLFLOW_TRACKING_TOKEN")
    if token:
        return f"Bearer {token}"
    user = unquote(parts.username or "") or os.environ.get("MLFLOW_TRACKING_USERNAME", "")
    password = unquote(parts.password or "") or os.environ.get("MLFLOW_TRACKING_PASSWORD", "")
    if not user:
        return None
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
