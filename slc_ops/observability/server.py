"""``GET /metrics`` for Prometheus, with a bearer token."""

import hmac
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from slc_ops.base.errors import SettingsError, SlcError
from slc_ops.base.passwords import weakness
from slc_ops.observability.exposition import CONTENT_TYPE, render
from slc_ops.observability.metrics import collect
from slc_ops.settings.deployments import Places


class MetricsHandler(BaseHTTPRequestHandler):
    """Answers one path, to those who know the token."""

    server: "MetricsServer"
    server_version = "slc-ops"
    sys_version = ""

    def do_GET(self) -> None:
        """The metrics; 401 without the token, 404 for any other path, 500 with the reason."""
        given = self.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {self.server.token}".encode()):
            return self._answer(HTTPStatus.UNAUTHORIZED, "a bearer token is needed\n")
        if self.path.split("?")[0] != "/metrics":
            return self._answer(HTTPStatus.NOT_FOUND, "only /metrics is here\n")
        try:
            text = render(collect(self.server.places, datetime.now(UTC)))
        except (SlcError, OSError, ValueError, KeyError) as error:
            return self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, f"{error}\n")
        return self._answer(HTTPStatus.OK, text)

    def _answer(self, status: HTTPStatus, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        if status == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", 'Bearer realm="slc-ops"')
        self.end_headers()
        self.wfile.write(body)


class MetricsServer(ThreadingHTTPServer):
    """The metrics of some places, on an address, behind a token."""

    daemon_threads = True

    def __init__(self, places: Places, host: str, port: int, token: str) -> None:
        if fault := weakness(token):
            raise SettingsError(f"SLC_OPS_METRICS_TOKEN is too weak: {fault}; make env writes a good one")
        self.places = places
        self.token = token
        try:
            super().__init__((host, port), MetricsHandler)
        except OSError as error:
            raise SettingsError(f"cannot listen on {host}:{port}: {error.strerror}") from None
