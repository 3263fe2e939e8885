"""A receiver of notifications: a web server on loopback."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


@contextmanager
def listening() -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """A server that keeps every JSON body with its path and its Authorization header."""
    heard: list[dict[str, Any]] = []

    class Ear(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            heard.append(json.loads(body) | {"path": self.path, "token": self.headers.get("Authorization")})
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = HTTPServer(("127.0.0.1", 0), Ear)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_port, heard
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
