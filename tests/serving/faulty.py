"""A registry with faults on demand: real HTTP on loopback, with the answers of MLflow's REST API."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from tests.registry.factory import WEEKS


class FaultyRegistry(ThreadingHTTPServer):
    """Serves one version from a directory; ``fault`` says how it fails."""

    daemon_threads = True

    def __init__(self, parameters: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.parameters = parameters
        self.version = 1
        self.source = "mlflow-artifacts:/1/run{}/artifacts/model"
        self.fault: str | None = None
        self.headers_seen: list[dict[str, str]] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def description(self) -> dict[str, object]:
        window = WEEKS[self.version - 1].as_dict()
        tags = {"window_start": window["start"], "window_end": window["end"]}
        return {
            "model_version": {
                "name": "slc-demo",
                "version": str(self.version),
                "run_id": f"run{self.version}",
                "source": self.source.format(self.version),
                "tags": [{"key": key, "value": value} for key, value in tags.items()],
            }
        }


class _Handler(BaseHTTPRequestHandler):
    server: FaultyRegistry

    def do_GET(self) -> None:
        self.server.headers_seen.append(dict(self.headers))
        fault = self.server.fault
        path = urlsplit(self.path).path
        if fault == "500":
            self._answer(500, b"Internal Server Error")
        elif fault == "hang":
            time.sleep(30)
        elif fault == "redirect":
            self.send_response(302)
            self.send_header("Location", f"{self.server.address}/elsewhere")
            self.end_headers()
        elif fault == "garbage":
            self._answer(200, b"<html>a proxy's login page</html>")
        elif fault == "nonsense":
            self._answer(200, b'{"model_version": []}')
        elif fault in ("drip", "drip head", "endless"):
            self._endless(fault)
        elif path.endswith("/registered-models/alias"):
            self._answer(200, json.dumps(self.server.description()).encode())
        else:
            self._file(Path(path).name)

    def _file(self, name: str) -> None:
        body = (self.server.parameters / name).read_bytes()
        if self.server.fault == "cut":
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2])
        elif self.server.fault in ("drip file", "endless file") and name.endswith(".parquet"):
            self._endless(self.server.fault.removesuffix(" file"))
        elif self.server.fault == "404":
            self._answer(404, b'{"message": "no such artifact"}')
        else:
            self._answer(200, body)

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _endless(self, fault: str) -> None:
        """An endless answer: byte by byte, or as fast as it is read."""
        try:
            if fault == "drip head":
                self.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
            else:
                self.send_response(200)
                self.end_headers()
            while self.server.fault is not None:
                self.wfile.write(b"[" * 65536 if fault == "endless" else b" ")
                self.wfile.flush()
                time.sleep(0 if fault == "endless" else 0.05)
        except OSError:
            pass

    def log_message(self, *args: object) -> None:
        """Quiet."""


@contextmanager
def faulty_registry(parameters: Path) -> Iterator[FaultyRegistry]:
    """The server, in a thread."""
    server = FaultyRegistry(parameters)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.fault = None
        server.shutdown()
        server.server_close()
        thread.join()
