"""Recipients of notifications, and failures to deliver."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from airflow.sdk import Connection

from slc_ops.base.errors import SettingsError
from slc_ops.observability.notify import Event, address, build, tell
from slc_ops.settings.blocks import Notifier, Notify
from tests.webhook import listening

STOP = Event("stop", "school", "ValidationStopped: label is 0 or 1", window="2026-02-16/2026-02-23")


def test_the_webhook_gets_the_event_as_json_with_the_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with listening() as (port, heard):
        monkeypatch.setenv("AIRFLOW_CONN_TEAM", f"http://:s3cret@127.0.0.1:{port}/hooks/slc")
        tell(STOP, Notify(webhook="team"), {})

    (event,) = heard
    assert (event["event"], event["deployment"], event["sentence"]) == ("stop", "school", STOP.sentence)
    assert (event["path"], event["token"]) == ("/hooks/slc", "Bearer s3cret")


def test_a_deployment_without_a_webhook_uses_the_common_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tell(STOP, Notify(), {})
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]

    with listening() as (port, heard):
        monkeypatch.setenv("AIRFLOW_CONN_SLC_WEBHOOK", f"http://127.0.0.1:{port}")
        tell(STOP, Notify(), {})
    assert len(heard) == 1


def test_only_the_selected_events_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    with listening() as (port, heard):
        monkeypatch.setenv("AIRFLOW_CONN_SLC_WEBHOOK", f"http://127.0.0.1:{port}")
        tell(STOP, Notify(events=("rollback",)), {})
        tell(Event("control", "flight-delay", "the gate let noise pass"), Notify(events=()), {})

    assert [event["event"] for event in heard] == ["control"]


def test_a_notifier_renders_the_event_in_its_template(tmp_path: Path) -> None:
    box = Notifier(
        path="tests.airflow.mailbox.Mailbox",
        arguments={
            "file": str(tmp_path / "box"),
            "text": "{{ slc_event.deployment }}: {{ slc_event.sentence }}",
        },
    )

    tell(STOP, Notify(notifiers=(box,)), {})

    assert (tmp_path / "box").read_text() == f"school: {STOP.sentence}\n"


def test_a_failed_recipient_is_logged_and_the_others_are_notified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_TEAM", "http://127.0.0.1:9")
    box = {"file": str(tmp_path / "box"), "text": "heard"}
    notifiers = (
        Notifier(path="tests.airflow.mailbox.Broken"),
        Notifier(path="tests.webhook.listening"),
        Notifier(path="no.such.notifier"),
        Notifier(path="tests.airflow.mailbox.Mailbox", arguments=box),
    )

    tell(STOP, Notify(webhook="team", notifiers=notifiers), {})

    assert (tmp_path / "box").read_text() == "heard\n"
    assert "the webhook team was not notified" in caplog.text
    assert "no.such.notifier" in caplog.text


def test_a_missing_connection_is_logged_as_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tell(STOP, Notify(webhook="no_such_connection"), {})

    assert "there is no Airflow connection 'no_such_connection'" in caplog.text


def test_only_notifier_classes_are_instantiated() -> None:
    from tests.airflow.mailbox import Mailbox

    known = Notifier(path="tests.airflow.mailbox.Mailbox", arguments={"file": "f", "text": ""})
    assert isinstance(build(known), Mailbox)
    with pytest.raises(SettingsError, match="not an Airflow notifier"):
        build(Notifier(path="os.system"))


@pytest.mark.parametrize(
    ("connection", "url"),
    [
        ({"host": "hooks.example/slc"}, "https://hooks.example/slc"),
        ({"host": "https://hooks.example/slc"}, "https://hooks.example/slc"),
        ({"host": "hooks.example", "schema": "http", "port": 8080}, "http://hooks.example:8080"),
        ({"uri": "http://hooks.example:81/a/b"}, "http://hooks.example:81/a/b"),
    ],
)
def test_a_connection_may_have_fields_or_a_uri(connection: dict[str, object], url: str) -> None:
    if "uri" in connection:
        made = Connection.from_uri(str(connection["uri"]), conn_id="team")
    else:
        made = Connection(conn_id="team", conn_type="http", **connection)  # type: ignore[arg-type]
        made.conn_type = "generic"
    assert address(made) == url


@pytest.mark.parametrize("host", ["", "file:///etc/passwd", "ftp://example"])
def test_a_connection_without_a_web_address_is_refused(host: str) -> None:
    with pytest.raises(SettingsError, match="not a web address"):
        address(Connection(conn_id="team", conn_type="generic", host=host))


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_the_bearer_token_is_not_sent_to_a_redirect_target(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    with redirecting(code) as (port, asked):
        monkeypatch.setenv("AIRFLOW_CONN_TEAM", f"http://:s3cret@127.0.0.1:{port}/hooks/slc")
        tell(STOP, Notify(webhook="team"), {})

    assert asked == ["/hooks/slc"]
    assert f"answered with a redirect ({code})" in caplog.text
    assert "s3cret" not in caplog.text


@contextmanager
def redirecting(code: int) -> Iterator[tuple[int, list[str]]]:
    """A server that redirects every request and records the requested paths."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(code)
            self.send_header("Location", "/taken")
            self.end_headers()

        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server.server_port, asked
    finally:
        server.shutdown()
        server.server_close()
