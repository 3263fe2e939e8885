"""The downloader against a real server on loopback: progress, resuming, sizes, checksums."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from slc_ops.base.errors import InputError
from slc_ops.controls.datasets import DATASETS, download

CONTENT = bytes(range(256)) * 20_000  # 5 MB


class Handler(BaseHTTPRequestHandler):
    """Serve CONTENT with ranges; ``/short`` stops half way, ``/stubborn`` does not support ranges."""

    ranges: list[str | None]

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.ranges.append(wanted)  # type: ignore[attr-defined]
        if self.path == "/absent":
            self.send_error(404)
            return
        first = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.path != "/stubborn" else 0
        if first >= len(CONTENT):
            self.send_error(416)
            return
        body = CONTENT[first:]
        self.send_response(206 if first else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if self.path == "/short" else body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    found = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.ranges = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=found.serve_forever, args=(0.01,))
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


def url(server: ThreadingHTTPServer, path: str = "/file") -> str:
    return f"http://127.0.0.1:{server.server_address[1]}{path}"


def test_a_file_is_fetched_with_progress(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    path = download(url(server), tmp_path / "a" / "file", progress=lambda *now: seen.append(now))
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert len(seen) > 1


def test_a_finished_file_is_not_fetched_again(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    for _ in range(2):
        download(url(server), tmp_path / "file")
    assert len(server.ranges) == 1  # type: ignore[attr-defined]


def test_a_partial_file_is_resumed(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"run the same command again to resume"):
        download(url(server, "/short"), tmp_path / "file")
    assert not (tmp_path / "file").exists()
    have = (tmp_path / "file.part").stat().st_size
    assert 0 < have < len(CONTENT)
    assert download(url(server), tmp_path / "file").read_bytes() == CONTENT
    assert server.ranges[-1] == f"bytes={have}-"  # type: ignore[attr-defined]


def test_without_range_support_the_download_starts_over(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(b"something else")
    assert download(url(server, "/stubborn"), tmp_path / "file").read_bytes() == CONTENT


def test_a_complete_partial_file_is_kept(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT)
    assert download(url(server), tmp_path / "file").read_bytes() == CONTENT


def test_a_wrong_checksum_is_refused(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    right = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()
    assert download(url(server), tmp_path / "right", md5=right).exists()
    with pytest.raises(InputError, match=rf"has the MD5 {right}, expected 0000"):
        download(url(server), tmp_path / "wrong", md5="0" * 32)
    assert not list(tmp_path.glob("wrong*"))


def test_a_missing_file_is_reported(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"/absent cannot be fetched: Not Found"):
        download(url(server, "/absent"), tmp_path / "file")


def test_the_list_of_published_data_sets_is_complete() -> None:
    assert len(DATASETS["bts"].files) == 24
    assert all(md5 for _, md5 in DATASETS["ml-1m"].files.values())
    assert "redistribute" in DATASETS["ml-1m"].terms
