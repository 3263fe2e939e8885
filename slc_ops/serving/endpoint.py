"""One path of the server: token, limits, timeout, one-line errors and counts, the same for all paths.

Small bodies are answered on the event loop, because a thread would cost more than the work; larger ones in a
few threads, so that they do not block others.
"""

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from slc_ops.base.errors import InputError, SlcError
from slc_ops.serving import formats
from slc_ops.serving.corrector import Corrector, NotServed
from slc_ops.serving.deadlines import Deadlines
from slc_ops.serving.exposition import Requests

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
_log = logging.getLogger(__name__)
_SMALL = 1 << 16
_STATUS: dict[type[SlcError], int] = {
    NotServed: 404, formats.TooLarge: 413, formats.Unreadable: 400, InputError: 422, SlcError: 503,
}  # fmt: skip
"""Error → HTTP status; the first matching class applies."""


@dataclass(frozen=True)
class Limits:
    """Limits of one request and of all requests together."""

    bytes: int = 16 << 20
    rows: int = 100_000
    seconds: float = 30.0
    """From the first byte of a request to the last byte of its answer."""

    @property
    def held(self) -> int:
        """Maximum bytes of all bodies in memory; further requests get 503."""
        return 8 * self.bytes


class Refused(InputError):
    """An error with its own HTTP status instead of 422."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers


class Asked(NamedTuple):
    """A request that was read completely."""

    body: bytes
    headers: Mapping[bytes, bytes]
    query: bytes
    path: Mapping[str, str]

    @property
    def kind(self) -> str:
        """The media type, without parameters."""
        return self.headers.get(b"content-type", b"").partition(b";")[0].strip().lower().decode("latin-1")

    @property
    def interval(self) -> bool:
        """True for ``?interval=true``; values other than true and false raise :class:`InputError`."""
        if not self.query:
            return False
        asked = dict(parse_qsl(self.query.decode("latin-1"), keep_blank_values=True))
        if (found := asked.get("interval", "false")) not in ("true", "false"):
            raise InputError(f"interval is {found!r:.40}; expected true or false")
        return found == "true"


NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Reply(NamedTuple):
    """The response of an endpoint."""

    body: bytes
    kind: str = formats.JSON
    status: int = 200
    headers: Mapping[str, str] = NO_HEADERS


Work = Callable[[Asked], Reply]


class Shared:
    """State that all endpoints share."""

    def __init__(self, corrector: Corrector, token: str | None, limits: Limits) -> None:
        self.limits, self.requests, self.held = limits, Requests(corrector.deployment), 0
        self.small = min(_SMALL, limits.bytes)
        self.expected = None if token is None else f"Bearer {token}".encode()
        self.threads = ThreadPoolExecutor(2, thread_name_prefix="slc-ops-serve")
        self.deadlines = Deadlines[asyncio.Task[Any] | None](limits.seconds, _cancel)

    def too_long(self) -> Refused:
        """Return the error for a body above the limit of bytes."""
        message = f"the body has more than {self.limits.bytes:,} bytes: send the rows in parts"
        return Refused(413, message, connection="close")


def _cancel(task: asyncio.Task[Any] | None) -> None:
    if task is not None:
        task.cancel()


class Endpoint:
    """One path: read the request within the limits, call the handler, send the reply."""

    def __init__(
        self,
        shared: Shared,
        path: str,
        works: Mapping[str, Work],
        *,
        is_open: bool = False,
        in_thread: bool = False,
    ) -> None:
        self._shared, self._path, self._is_open, self._in_thread = shared, path, is_open, in_thread
        self._works = dict(works) | ({"HEAD": works["GET"]} if "GET" in works else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000, "reason": "no websockets here"})
            return
        began, shared, body = time.perf_counter(), self._shared, _Body(self._shared)
        task, reply = asyncio.current_task(), None
        shared.deadlines.open(task)
        try:
            try:
                headers = dict(scope["headers"])
                work = self._checked(scope, headers)
                message = await receive()
                whole = message.get("body", b"")
                body.complete = message["type"] == "http.request" and not message.get("more_body")
                if not body.complete or len(whole) > shared.small:
                    whole = await body.read(message, receive)
                asked = Asked(whole, headers, scope["query_string"], scope.get("path_params", NO_HEADERS))
                if len(whole) <= shared.small and not self._in_thread:
                    reply = work(asked)
                else:
                    loop = asyncio.get_running_loop()
                    reply = await loop.run_in_executor(shared.threads, work, asked)
            except ConnectionAbortedError:  # the client disconnected
                return
            except Exception as error:
                reply = self._failed(error)
            await send(_start(reply))
            await send({"type": "http.response.body", "body": reply.body})
        except asyncio.CancelledError:
            if shared.deadlines.close(task):  # the server stops
                raise
            task.uncancel()  # type: ignore[union-attr]  # an application runs in a task
            unsent = reply is None
            reply = _error(
                400 if not body.complete else 503, f"the request took longer than {shared.limits.seconds:g} s"
            )
            if unsent:  # the connection closes; a later part of the request is ignored
                await send(_start(reply))
                await send({"type": "http.response.body", "body": reply.body})
        finally:
            shared.deadlines.close(task)
            body.let_go()
        shared.requests.add(self._path, reply.status, time.perf_counter() - began)

    def _failed(self, error: Exception) -> Reply:
        if isinstance(error, Refused):
            return _error(error.status, str(error), **error.headers)
        if isinstance(error, SlcError):
            status = next(status for kind, status in _STATUS.items() if isinstance(error, kind))
            return _error(status, str(error))
        _log.error("a request to %s failed unexpectedly", self._path, exc_info=error)
        return _error(500, "internal error; see the server's log")

    def _checked(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Work:
        """Check the token, the path, the HTTP method and the stated size; return the handler."""
        expected = self._shared.expected
        if (
            expected is not None
            and not self._is_open
            and not hmac.compare_digest(headers.get(b"authorization", b""), expected)
        ):
            raise Refused(401, "a bearer token is needed", **{"www-authenticate": 'Bearer realm="slc-ops"'})
        if not self._works:
            raise Refused(404, f"there is no route {scope['path']!r:.80}; /openapi.json lists the routes")
        if (work := self._works.get(scope["method"])) is None:
            allowed = ", ".join(self._works)
            raise Refused(
                405, f"{self._path} does not accept {scope['method'][:20]}; use {allowed}", allow=allowed
            )
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise Refused(400, "the body is compressed; expected no compression")
        stated = headers.get(b"content-length", b"0")
        if stated.isdigit() and int(stated) > self._shared.limits.bytes:
            raise self._shared.too_long()
        return work


class _Body:
    """The body of one request; its bytes count towards the shared limit."""

    def __init__(self, shared: Shared) -> None:
        self._shared, self._held, self.complete = shared, 0, False

    async def read(self, message: MutableMapping[str, Any], receive: Receive) -> bytes:
        """Return the whole body, of which ``message`` is the first part; a limit raises :class:`Refused`."""
        chunks: list[bytes] = []
        while True:
            if message["type"] == "http.disconnect":
                raise ConnectionAbortedError
            chunks.append(message.get("body", b""))
            self._hold(len(chunks[-1]))
            if not message.get("more_body"):
                self.complete = True
                return b"".join(chunks)
            message = await receive()

    def let_go(self) -> None:
        """Release the bytes when the request ends."""
        self._shared.held -= self._held
        self._held = 0

    def _hold(self, size: int) -> None:
        self._held += size
        self._shared.held += size
        if self._held > self._shared.limits.bytes:
            raise self._shared.too_long()
        if self._shared.held > self._shared.limits.held:
            raise Refused(503, "too many large requests at once; try again", **{"retry-after": "1"})


def _error(status: int, message: str, **headers: str) -> Reply:
    return Reply(formats.dumps({"error": " ".join(message.split())}), status=status, headers=headers)


def _start(reply: Reply) -> dict[str, Any]:
    headers = [(b"content-type", reply.kind.encode()), (b"content-length", b"%d" % len(reply.body))]
    if reply.headers:
        headers += [(name.encode(), value.encode()) for name, value in reply.headers.items()]
    return {"type": "http.response.start", "status": reply.status, "headers": headers}
