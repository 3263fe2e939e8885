"""The read part of Iceberg's REST catalogue protocol, over the tables of another catalogue."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError

TOKEN = "let-me-in"  # of this server alone


@contextmanager
def rest_catalogue(tables: SqlCatalog) -> Iterator[str]:
    """The address of a server with the specified answers: configuration, table, errors."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0].strip("/").split("/")
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                return self.answer(401, error("NotAuthorizedException", "who are you?", 401))
            if path == ["v1", "config"]:
                return self.answer(200, {"defaults": {}, "overrides": {}})
            _, _, namespace, _, name = path
            try:
                table = tables.load_table(f"{namespace}.{name}")
            except NoSuchTableError as missing:
                return self.answer(404, error("NoSuchTableException", str(missing), 404))
            metadata = json.loads(table.metadata.model_dump_json())
            return self.answer(200, {"metadata-location": table.metadata_location, "metadata": metadata})

        def answer(self, status: int, body: dict[str, object]) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def error(kind: str, message: str, code: int) -> dict[str, object]:
    """An error as specified."""
    return {"error": {"type": kind, "message": message, "code": code}}
