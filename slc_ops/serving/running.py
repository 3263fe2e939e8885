"""Run the application in uvicorn: slow request heads are cut off, SIGTERM lets open requests finish."""

import gc
import socket
from asyncio import Transport
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from slc_ops.serving.deadlines import Deadlines

HEAD_SECONDS = 10.0
HEAD_BYTES = 1 << 16


class BoundedHeads(HttpToolsProtocol):
    """uvicorn's protocol with limits of time and size on the head of a request; uvicorn has neither.

    The application limits the rest of the request.
    """

    def __init__(self, heads: Deadlines["BoundedHeads"], **given: Any) -> None:
        super().__init__(**given)
        self._heads, self._size = heads, 0

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._heads.open(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._heads.close(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:  # a whole head has arrived
            self._heads.close(self)
            self._size = 0
        elif before is None or before.response_complete:  # part of a head
            if not self._size and before is not None:
                self._heads.open(self)
            self._size += len(data)
            if self._size > HEAD_BYTES:
                self.transport.close()


def run(application: Any, listener: socket.socket, seconds: float) -> None:
    """Serve until SIGTERM or SIGINT; open requests have ``seconds`` to finish."""
    gc.collect()
    gc.freeze()  # a full collection would visit every object of the libraries and stop all requests
    server_of(application, seconds).run(sockets=[listener])


def server_of(application: Any, seconds: float) -> uvicorn.Server:
    """Return the configured server without starting it."""
    heads = Deadlines[BoundedHeads](HEAD_SECONDS, lambda protocol: protocol.transport.close())
    config = uvicorn.Config(
        application,
        http=partial(BoundedHeads, heads),  # type: ignore[arg-type]  # uvicorn only calls it
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=int(seconds) + 1,
        backlog=2048,
    )
    return uvicorn.Server(config)
