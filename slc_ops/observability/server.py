"""``GET /metrics`` for Prometheus, with a bearer token: prometheus_client's application behind wsgiref.

A client that does not finish its request is dropped after :data:`REQUEST_SECONDS`, and sooner when others
wait: threads are bounded, and half requests cannot hold them all.
"""

import hmac
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from socket import SHUT_RDWR, socket
from socketserver import ThreadingMixIn
from typing import Any, cast
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import make_wsgi_app

from slc_ops.base.errors import SettingsError, SlcError
from slc_ops.base.passwords import weakness
from slc_ops.observability.metrics import collect, registry_of
from slc_ops.settings.deployments import Places

MAX_THREADS = 16
REQUEST_SECONDS = 10.0
Start = Callable[[str, list[tuple[str, str]]], Any]


def application(places: Places, token: str) -> Callable[[dict[str, Any], Start], Iterable[bytes]]:
    """Answers one path, to those who know the token: 401 without it, 404 elsewhere, 500 with the reason."""
    metrics = make_wsgi_app(registry_of(lambda: collect(places, datetime.now(UTC))))

    def answer(environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        def begin(status: str, headers: list[tuple[str, str]]) -> Any:
            return start(status, [*headers, ("Server", "slc-ops")])

        def refuse(status: str, text: str, *headers: tuple[str, str]) -> Iterable[bytes]:
            begin(status, [("Content-Type", "text/plain; charset=utf-8"), *headers])
            return [f"{text}\n".encode()]

        given = environ.get("HTTP_AUTHORIZATION", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
            realm = ("WWW-Authenticate", 'Bearer realm="slc-ops"')
            return refuse("401 Unauthorized", "a bearer token is needed", realm)
        if environ["PATH_INFO"] != "/metrics":
            return refuse("404 Not Found", "only /metrics is here")
        try:
            return cast(Iterable[bytes], metrics({**environ, "QUERY_STRING": ""}, begin))
        except (SlcError, OSError, ValueError, KeyError) as error:
            return refuse("500 Internal Server Error", str(error))

    return answer


class MetricsHandler(WSGIRequestHandler):
    """One request; a client that is silent or leaves is no news."""

    server: "MetricsServer"
    timeout = REQUEST_SECONDS
    server_version = "slc-ops"
    sys_version = ""

    def handle(self) -> None:
        """Answer the request, if one arrives."""
        with suppress(TimeoutError, ConnectionError):
            super().handle()

    def parse_request(self) -> bool:
        """Read line and headers; what was there of a request when its client was dropped is no request."""
        complete = super().parse_request()
        return self.server.arrived(self.connection) and complete


class MetricsServer(ThreadingMixIn, WSGIServer):
    """The metrics of some places, on an address, behind a token, with a bounded number of threads.

    Raises :class:`~slc_ops.base.errors.SettingsError` for a weak token or an address that is not free.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self, places: Places, host: str, port: int, token: str, *, request_seconds: float = REQUEST_SECONDS
    ) -> None:
        if fault := weakness(token):
            raise SettingsError(f"SLC_OPS_METRICS_TOKEN is too weak: {fault}; make env writes a good one")
        self.places = places
        self.request_seconds = request_seconds
        self._lock = threading.Lock()
        self._free = threading.BoundedSemaphore(MAX_THREADS)
        self._reading: dict[socket, float] = {}  # clients whose request is not complete, oldest first
        try:
            super().__init__((host, port), MetricsHandler)
        except OSError as error:
            raise SettingsError(f"cannot listen on {host}:{port}: {error.strerror}") from None
        self.set_app(application(places, token))

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread; where all are taken, the oldest client with half a request makes room."""
        if not self._free.acquire(blocking=False):
            self._drop(at_least=1)
            if not self._free.acquire(timeout=1):
                self.shutdown_request(request)
                return
        with self._lock:
            self._reading[request] = time.monotonic()
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread to be started: its place is free again
            self.arrived(request)
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and give the place back."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.arrived(request)
            self._free.release()

    def arrived(self, request: socket) -> bool:
        """Stop counting the client as slow; whether it was still counted."""
        with self._lock:
            return self._reading.pop(request, None) is not None

    def service_actions(self) -> None:
        """Called by ``serve_forever`` twice a second: drop who takes too long, also byte by byte."""
        self._drop()

    def _drop(self, at_least: int = 0) -> None:
        with self._lock:
            limit = time.monotonic() - self.request_seconds
            for count, (request, since) in enumerate(list(self._reading.items())):
                if count >= at_least and since > limit:
                    break
                del self._reading[request]
                with suppress(OSError):  # its own thread may have closed it
                    request.shutdown(SHUT_RDWR)
