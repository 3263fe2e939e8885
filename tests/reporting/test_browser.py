"""The page in a real browser: no console error, no network request."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None, reason="no Chromium on this machine (Debian: apt-get install chromium)"
    ),
]
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--enable-logging=stderr", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]  # fmt: skip


def browse(page: Path, tmp_path: Path, *more: str) -> tuple[str, list[str], str]:
    """Open a page; return its DOM, its requests, and the browser's log."""
    net = tmp_path / "net.json"
    done = subprocess.run(
        [
            CHROMIUM,
            *FLAGS,
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--log-net-log={net}",
            *more,
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    log = json.loads(net.read_text())
    types = {number: name for name, number in log["constants"]["logEventTypes"].items()}
    # The browser's own requests have no origin; those of a page have one.
    asked = [
        event["params"]["url"]
        for event in log["events"]
        if types[event["type"]] == "URL_REQUEST_START_JOB"
        and event["params"].get("initiator") not in (None, "not an origin")
    ]
    return done.stdout, asked, done.stderr


def complaints(log: str) -> list[str]:
    return [line for line in log.splitlines() if "CONSOLE" in line]


def test_no_console_error_and_no_request(page, tmp_path):
    dom, asked, log = browse(page, tmp_path, "--dump-dom")
    assert "Renew slc" in dom
    assert asked == []
    assert complaints(log) == []


def test_the_detector_finds_console_errors_and_requests(tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text("<img src='http://127.0.0.1:9/x.png'><script>console.error('broken')</script>")
    _, asked, log = browse(bad, tmp_path, "--dump-dom")
    assert asked == ["http://127.0.0.1:9/x.png"]
    assert any("broken" in line for line in complaints(log))


@pytest.mark.parametrize("width", [390, 1280])
def test_no_part_of_the_page_is_wider_than_the_screen(page, tmp_path, width):
    # A script in a copy of the page reads the layout; the page itself has no script.
    probe = tmp_path / "probe.html"
    text = page.read_text().replace("default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';")
    script = (
        "<script>document.title = 'overflow ' + (document.documentElement.scrollWidth - innerWidth)</script>"
    )
    probe.write_text(text.replace("</body>", script + "</body>"))
    dom, _, _ = browse(probe, tmp_path, "--dump-dom", f"--window-size={width},900")
    overflow = int(dom.split("overflow ")[1].split("<")[0])
    assert overflow <= 0


@pytest.mark.parametrize("width", [400, 800, 1400])
def test_the_tables_of_items_show_all_their_columns(page, tmp_path, width):
    # In a frame, because the browser's window cannot be as narrow as a phone.
    inner, outer = tmp_path / "inner.html", tmp_path / "outer.html"
    text = page.read_text().replace("default-src 'none';", "default-src 'none'; script-src 'unsafe-inline';")
    script = (
        "<script>parent.postMessage([...document.querySelectorAll('.pair .scroll')]"
        ".map(table => table.scrollWidth - table.clientWidth).join(' '), '*')</script>"
    )
    inner.write_text(text.replace("</body>", script + "</body>"))
    outer.write_text(
        "<script>onmessage = event => document.title = `hidden ${event.data} pixels`</script>"
        f"<iframe width={width} height=900 src={inner.name}></iframe>"
    )
    dom, _, _ = browse(outer, tmp_path, "--dump-dom", f"--window-size={width + 100},1000")
    assert "hidden 0 0 pixels" in dom


def test_the_page_can_be_printed(page, tmp_path):
    target = tmp_path / "report.pdf"
    browse(page, tmp_path, f"--print-to-pdf={target}")
    assert target.read_bytes().startswith(b"%PDF")
    assert target.stat().st_size > 20_000
