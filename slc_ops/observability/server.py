"""``GET /metrics`` for Prometheus, with a bearer token: prometheus_client's application.

:mod:`slc_ops.serving.running` runs it in uvicorn, like the corrector: a client that does not finish its
request is dropped, and until then uses a socket, never a thread.
"""

import hmac
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from socket import create_server, socket
from typing import Any

from prometheus_client import make_asgi_app

from slc_ops.base.errors import SettingsError, SlcError
from slc_ops.base.passwords import weakness
from slc_ops.observability.metrics import WithValues, collect
from slc_ops.settings.environment import Installation

Send = Callable[[dict[str, Any]], Awaitable[None]]


def application(
    installation: Installation, token: str
) -> Callable[[dict[str, Any], Any, Send], Awaitable[None]]:
    """Return the application for ``/metrics``: 401 without the token, 404 elsewhere, 500 with the cause."""
    metrics = make_asgi_app(WithValues(lambda: collect(installation, datetime.now(UTC))))

    async def answer(scope: dict[str, Any], receive: Any, send: Send) -> None:
        async def reply(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (b"server", b"slc-ops")]}
            await send(message)

        given = dict(scope["headers"]).get(b"authorization", b"")
        if not hmac.compare_digest(given, f"Bearer {token}".encode()):
            return await refuse(reply, 401, "a bearer token is needed")
        if scope["path"] != "/metrics":
            return await refuse(reply, 404, "only /metrics is here")
        try:
            await metrics({**scope, "query_string": b""}, receive, reply)
        except (SlcError, OSError, ValueError, KeyError) as error:
            await refuse(reply, 500, str(error))

    return answer


async def refuse(send: Send, status: int, text: str) -> None:
    """Send a one-line answer."""
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    if status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="slc-ops"'))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{text}\n".encode()})


def listener(host: str, port: int, token: str) -> socket:
    """Return the socket to listen on.

    Raises :class:`~slc_ops.base.errors.SettingsError` for a weak token or an address in use.
    """
    if fault := weakness(token):
        raise SettingsError(f"SLC_OPS_METRICS_TOKEN is too weak: {fault}; make env writes a good one")
    try:
        return create_server((host, port), backlog=128)
    except OSError as error:
        raise SettingsError(f"cannot listen on {host}:{port}: {error.strerror}") from None
