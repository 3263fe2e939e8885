"""A client of MLflow's REST API with the standard library, for serving hosts."""

import base64
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from typing import IO, Any

from slc_ops.base.errors import RegistryError

_CHUNK = 1 << 20
_MAX_ANSWER_BYTES = 4 << 20  # of an answer that describes a version


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuse redirects, because credentials are for the configured host only."""

    def redirect_request(self, *args: Any, **options: Any) -> None:
        return None


class Answered(RegistryError):
    """MLflow returned an error with the HTTP ``status``."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class RestClient:
    """GET with a timeout; every failure raises :class:`RegistryError` with the address."""

    def __init__(self, tracking_uri: str, timeout: float) -> None:
        parts = urllib.parse.urlsplit(tracking_uri)
        host = parts.netloc.rpartition("@")[2]
        self.base = f"{parts.scheme}://{host}{parts.path.rstrip('/')}"
        self.timeout = timeout
        self._authorization = _authorization(parts)
        self._opener = urllib.request.build_opener(_NoRedirect)

    def get_json(self, path: str, **query: str) -> Any:
        """Return the JSON answer of an endpoint."""
        address = f"{path}?{urllib.parse.urlencode(query)}"
        try:
            return json.loads(b"".join(self._chunks(address, _MAX_ANSWER_BYTES)))
        except (ValueError, RecursionError):
            raise RegistryError(f"MLflow at {self.base} answered something that is not JSON") from None

    def download(self, path: str, into: IO[bytes], longest: int) -> None:
        """Write the bytes of a path into an open file; more than ``longest`` raise :class:`RegistryError`."""
        for chunk in self._chunks(urllib.parse.quote(path), longest):
            into.write(chunk)

    def _chunks(self, address: str, longest: int) -> Iterator[bytes]:
        """Yield the bytes of an answer; :class:`Bounded` sets the deadline for the whole."""
        request = urllib.request.Request(f"{self.base}{address}")  # noqa: S310 - http(s) only, checked by the caller
        if self._authorization:
            request.add_header("Authorization", self._authorization)
        received = 0
        try:
            with self._opener.open(request, timeout=self.timeout) as answer:
                while chunk := answer.read1(_CHUNK):
                    received += len(chunk)
                    if received > longest:
                        raise RegistryError(
                            f"MLflow at {self.base} sends more than the {longest:,} bytes that were expected"
                        )
                    yield chunk
                if answer.length:
                    raise ConnectionError(f"the connection broke off; {answer.length} bytes are missing")
        except urllib.error.HTTPError as error:
            raise Answered(
                f"MLflow at {self.base} answered {error.code}: {_message(error)}", error.code
            ) from None
        except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
            reason = getattr(error, "reason", None) or error
            raise RegistryError(f"MLflow at {self.base} cannot be reached: {reason}") from None


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read(4096))["message"])
    except (ValueError, KeyError, TypeError, OSError):
        return str(error.reason)


def _authorization(parts: urllib.parse.SplitResult) -> str | None:
    """Return the header that MLflow's own client would send for the same environment."""
    token = os.environ.get("MLFLOW_TRACKING_TOKEN")
    if token:
        return f"Bearer {token}"
    user = urllib.parse.unquote(parts.username or "") or os.environ.get("MLFLOW_TRACKING_USERNAME", "")
    password = urllib.parse.unquote(parts.password or "") or os.environ.get("MLFLOW_TRACKING_PASSWORD", "")
    if not user:
        return None
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
