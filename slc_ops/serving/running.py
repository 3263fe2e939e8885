"""Run the application in uvicorn: slow request heads are cut off, SIGTERM lets open requests finish."""

import socket
from asyncio import TimerHandle, Transport
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS = 10.0
HEAD_BYTES = 1 << 16


class BoundedHeads(HttpToolsProtocol):
    """uvicorn's protocol with limits of time and size on the head of a request; uvicorn has neither.

    The application limits the rest of the request.
    """

    _alarm: TimerHandle | None = None
    _head = 0

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._head += len(data)
        super().data_received(data)
        if self._alarm is not None and self._head > HEAD_BYTES:
            self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head = 0
        if self._alarm is None:  # the next request of a keep-alive connection
            self._wait()

    def on_headers_complete(self) -> None:
        self._arrived()
        super().on_headers_complete()

    def _wait(self) -> None:
        self._alarm = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _arrived(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None


def run(application: Any, listener: socket.socket, seconds: float) -> None:
    """Serve until SIGTERM or SIGINT; open requests have ``seconds`` to finish."""
    server_of(application, seconds).run(sockets=[listener])


def server_of(application: Any, seconds: float) -> uvicorn.Server:
    """Return the configured server without starting it."""
    config = uvicorn.Config(
        application,
        http=BoundedHeads,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=int(seconds) + 1,
        backlog=2048,
    )
    return uvicorn.Server(config)
