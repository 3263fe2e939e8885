"""``GET /metrics`` for Prometheus, with a bearer token: prometheus_client's application under uvicorn.

One request per connection. A client that does not finish it is dropped after :data:`REQUEST_SECONDS`, and
sooner where more than :data:`MAX_WAITING` do the same: half a request holds a socket, never a thread.
"""

import hmac
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from socket import create_server
from typing import Any, ClassVar

from prometheus_client import make_asgi_app
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from slc_ops.base.errors import SettingsError, SlcError
from slc_ops.base.passwords import weakness
from slc_ops.observability.metrics import collect, registry_of
from slc_ops.settings.deployments import Places

MAX_WAITING = 256
REQUEST_SECONDS = 10.0
Send = Callable[[dict[str, Any]], Awaitable[None]]


def application(places: Places, token: str) -> Callable[[dict[str, Any], Any, Send], Awaitable[None]]:
    """Answers one path, to those who know the token: 401 without it, 404 elsewhere, 500 with the reason."""
    metrics = make_asgi_app(registry_of(lambda: collect(places, datetime.now(UTC))))

    async def answer(scope: dict[str, Any], receive: Any, send: Send) -> None:
        given = dict(scope["headers"]).get(b"authorization", b"")
        if not hmac.compare_digest(given, f"Bearer {token}".encode()):
            return await refuse(send, 401, "a bearer token is needed")
        if scope["path"] != "/metrics":
            return await refuse(send, 404, "only /metrics is here")
        try:
            await metrics({**scope, "query_string": b""}, receive, send)
        except (SlcError, OSError, ValueError, KeyError) as error:
            await refuse(send, 500, str(error))

    return answer


async def refuse(send: Send, status: int, text: str) -> None:
    """An answer of one line."""
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    if status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="slc-ops"'))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{text}\n".encode()})


class OneRequest(H11Protocol):
    """A connection whose client has so long to send its request."""

    waiting: ClassVar[dict["OneRequest", None]] = {}
    """Those whose request is not complete, oldest first."""

    def connection_made(self, transport: Any) -> None:
        """Begin to wait; where too many do, the oldest makes room."""
        super().connection_made(transport)
        self.waiting[self] = None
        self.loop.call_later(REQUEST_SECONDS, self.drop)
        if len(self.waiting) > MAX_WAITING:
            next(iter(self.waiting)).drop()

    def data_received(self, data: bytes) -> None:
        """Read on; a request whose headers are complete is no longer waited for."""
        super().data_received(data)
        if self.cycle is not None:
            self.waiting.pop(self, None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.waiting.pop(self, None)
        super().connection_lost(exc)

    def drop(self) -> None:
        """Close the connection, if its request is still not complete."""
        if self in self.waiting:
            del self.waiting[self]
            self.transport.abort()


class MetricsServer(Server):
    """The metrics of some places, on an address, behind a token; :meth:`serve_forever` answers.

    Raises :class:`~slc_ops.base.errors.SettingsError` for a weak token or an address that is not free.
    """

    def __init__(self, places: Places, host: str, port: int, token: str) -> None:
        if fault := weakness(token):
            raise SettingsError(f"SLC_OPS_METRICS_TOKEN is too weak: {fault}; make env writes a good one")
        try:
            self.socket = create_server((host, port), backlog=128)
        except OSError as error:
            raise SettingsError(f"cannot listen on {host}:{port}: {error.strerror}") from None
        self.port: int = self.socket.getsockname()[1]
        super().__init__(
            Config(
                application(places, token),
                http=OneRequest,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                headers=[("server", "slc-ops"), ("connection", "close")],
                timeout_graceful_shutdown=1,
            )
        )

    def serve_forever(self) -> None:
        """Answer until a signal, or :meth:`shutdown` of another thread."""
        self.run([self.socket])
