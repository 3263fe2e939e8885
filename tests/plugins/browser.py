"""A headless Chromium over its debugging protocol: log in, evaluate, take screenshots."""

import base64
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.request import urlopen

from websockets.sync.client import ClientConnection, connect

BINARIES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
    "--remote-debugging-port=0",
)  # fmt: skip


def found() -> str | None:
    """The path of Chromium, or None."""
    return next((path for name in BINARIES if (path := shutil.which(name))), None)


class Browser:
    """One tab. ``with Browser() as tab: tab.open(address)``."""

    def __enter__(self) -> "Browser":
        self.profile = Path(tempfile.mkdtemp(prefix="slc-browser-"))
        command = [str(found()), *FLAGS, f"--user-data-dir={self.profile}", "about:blank"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port_file = self.profile / "DevToolsActivePort"
        self.wait(lambda: port_file.exists() and port_file.read_text().count("\n") > 0, "Chromium to start")
        port = port_file.read_text().split()[0]
        with urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
            tab = next(target for target in json.load(answer) if target["type"] == "page")
        self.socket: ClientConnection = connect(tab["webSocketDebuggerUrl"], max_size=None)
        self.sent = 0
        self.complaints: list[str] = []
        for part in ("Page", "Log", "Runtime"):
            self.call(f"{part}.enable")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; keep errors among the events in between."""
        self.sent += 1
        self.socket.send(json.dumps({"id": self.sent, "method": method, "params": params}))
        while True:
            answer = json.loads(self.socket.recv(timeout=60))
            self._listen(answer)
            if answer.get("id") == self.sent:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result

    def _listen(self, event: dict[str, Any]) -> None:
        """Errors of the console and of scripts become :attr:`complaints`."""
        if event.get("method") == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
            entry = event["params"]["entry"]
            self.complaints.append(f"{entry.get('url', '')} {entry['text']}")
        if event.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(str(event["params"]["exceptionDetails"].get("text")))

    def dark(self, wanted: bool) -> None:
        """Set ``prefers-color-scheme``."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if wanted else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def settle(self) -> None:
        """Wait until fonts are loaded and two frames are drawn."""
        self.run(
            "Promise.all([document.fonts.ready, new Promise((done) => "
            "requestAnimationFrame(() => requestAnimationFrame(done)))]).then(() => true)"
        )
        time.sleep(0.5)

    def size(self, width: int, height: int, *, phone: bool = False) -> None:
        """Set the window's size; phones have denser pixels and touch."""
        scale = 2 if phone else 1
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=scale, mobile=phone,
        )  # fmt: skip

    def open(self, address: str) -> None:
        """Open an address; wait with :meth:`until` for content."""
        self.call("Page.navigate", url=address)

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(
                f"{script}: {answer['exceptionDetails'].get('exception', {}).get('description')}"
            )
        return answer["result"].get("value")

    def until(self, script: str, what: str, seconds: float = 45) -> Any:
        """Wait for an expression to become true."""

        def true() -> Any:
            try:
                return self.run(f"!!({script})")  # an element cannot be returned by value
            except AssertionError:  # the page is navigating
                return None

        return self.wait(true, what, seconds)

    def picture(self, path: Path) -> None:
        """A screenshot of the window as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    @staticmethod
    def wait(condition: Any, what: str, seconds: float = 45) -> Any:
        """Poll a condition; the test fails if it stays false."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if value := condition():
                return value
            time.sleep(0.1)
        raise AssertionError(f"waited {seconds:.0f} s for {what}")


def log_in(tab: Browser, address: str, user: str, password: str) -> None:
    """Airflow's own login form."""
    tab.open(f"{address}/")
    tab.until("document.querySelector('input[name=username]')", "the login form")
    fill = (
        "for (const [name, value] of [['username', %s], ['password', %s]]) {"
        "  const field = document.querySelector(`input[name=${name}]`);"
        "  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(field, value);"
        "  field.dispatchEvent(new Event('input', {bubbles: true}));"
        "} true"
    )
    tab.run(fill % (json.dumps(user), json.dumps(password)))
    button = "[...document.querySelectorAll('button')].find((b) => b.textContent.trim() === 'Sign in')"
    tab.until(f"{button} && !{button}.disabled", "the button to sign in")
    tab.run(f"{button}.click()")
    tab.until(
        "!document.querySelector('input') && document.body.innerText.includes('Dags')", "the first page"
    )
