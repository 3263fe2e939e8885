"""Receivers of notifications: a web server on loopback, and an Airflow notifier that writes to a file."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from airflow.sdk import BaseNotifier


class Mailbox(BaseNotifier):
    """Append a line per message; the text is a template, as in Airflow's own notifiers."""

    template_fields = ("text",)

    def __init__(self, file: str, text: str) -> None:
        super().__init__()
        self.file = file
        self.text = text

    def notify(self, context: Any) -> None:
        """Write the rendered text."""
        with Path(self.file).open("a") as stream:
            stream.write(self.text + "\n")


class Broken(BaseNotifier):
    """A notifier that cannot deliver."""

    def notify(self, context: Any) -> None:
        """Fail."""
        raise ConnectionError("unreachable")


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
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port, heard
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
