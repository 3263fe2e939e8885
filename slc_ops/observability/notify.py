"""Notifications per deployment: Airflow notifiers and a JSON event on a webhook.

Events: a refresh **stop**ped (validation or another step failed; the champion stays), a candidate was
**reject**ed by its evidence or **held** (with the number in a row), an **approval** is required (with a
reminder at half time), a **promotion**, a **rollback**, a champion **retired**, a **new_backbone**, and a
**control** that failed. Every message links to the relevant pages. A failed delivery is only logged in the
task: a notification must not break the refresh.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from slc_ops.base.addresses import without_secrets
from slc_ops.base.errors import SettingsError, SlcError
from slc_ops.settings.blocks import Notifier, Notify
from slc_ops.settings.connections import Connection, find_connection
from slc_ops.settings.environment import Installation

if TYPE_CHECKING:
    from slc_ops.registry import ChampionChange, Version

log = logging.getLogger(__name__)

DEFAULT_WEBHOOK = "slc_webhook"
"""The default Airflow connection; events of controls use it too."""
TIMEOUT_SECONDS = 10


@dataclass(frozen=True)
class Event:
    """An event for machines and people."""

    event: str
    """One of ``slc_ops.settings.blocks.EVENTS``, or ``control``."""
    deployment: str
    sentence: str
    window: str | None = None
    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    at: str = ""
    links: dict[str, str] = field(default_factory=dict)
    """Name → address: report, data docs, versions, MLflow, the run, the required action."""
    reminder: bool = False
    """True if the event was sent before and still waits for an answer."""


def announce(
    event: str,
    deployment: str,
    sentence: str,
    context: Any,
    *,
    window: str | None = None,
    links: Mapping[str, str],
    reminder: bool = False,
) -> None:
    """Notify of an event; ``links`` are names and addresses of pages.

    ``context`` is that of the running task, or empty on a terminal. Controls have the default settings.
    """
    run, ti = context.get("dag_run"), context.get("ti")
    made = Event(
        event=event,
        deployment=deployment,
        sentence=without_secrets(sentence),
        window=window,
        dag_id=getattr(run, "dag_id", None),
        run_id=getattr(run, "run_id", None),
        task_id=getattr(ti, "task_id", None),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        links=dict(links),
        reminder=reminder,
    )
    tell(made, Notify() if event == "control" else settings_of(deployment), context)


def champion_sentence(event: str, champion: "Version", actor: str, reason: str) -> str:
    """Return the sentence on a ``promotion`` or a ``rollback`` by a person."""
    did = {"promotion": "promoted by hand", "rollback": "rolled back"}[event]
    return f"{actor} {did}: version {champion.number} is the champion of {champion.deployment} ({reason})"


def retirement_sentence(change: "ChampionChange") -> str:
    """Return the sentence on a retirement by a person."""
    return f"{change}: the frozen model serves {change.deployment}"


def settings_of(deployment: str) -> Notify:
    """Return the deployment's settings; the defaults if they cannot be read."""
    try:
        return Installation.from_environment().deployment(deployment).notify
    except SlcError as error:
        log.error("notifications of %s fall back to the defaults: %s", deployment, error)
        return Notify()


def tell(event: Event, settings: Notify, context: Any) -> None:
    """Send an event to all its recipients; failures are logged."""
    if event.event != "control" and event.event not in settings.events:
        return
    for notifier in settings.notifiers:
        try:
            build(notifier)({**context, "slc_event": asdict(event)})
        except Exception:  # foreign code may raise anything, and the other notifiers must still run
            log.exception("the notifier %s failed", notifier.path)
    try:
        post(event, settings.webhook)
    except Exception as error:  # a secrets backend or a proxy may raise anything
        log.error(
            "the webhook %s was not notified: %s",
            settings.webhook or DEFAULT_WEBHOOK,
            without_secrets(str(error)),
        )


def build(notifier: Notifier) -> Any:
    """Return an instance of the configured class, which must be an Airflow notifier."""
    module, _, name = notifier.path.rpartition(".")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"the notifier {notifier.path} cannot be imported: {error}") from None
    # Compare by name, because Airflow may not be installed.
    if not (isinstance(found, type) and any(base.__name__ == "BaseNotifier" for base in found.__mro__)):
        raise SettingsError(f"{notifier.path} is not an Airflow notifier (a subclass of BaseNotifier)")
    return found(**notifier.arguments)


def post(event: Event, webhook: str | None) -> None:
    """POST the event as JSON; the address and the token come from an Airflow connection."""
    connection = _connection(webhook)
    if connection is None:
        return
    headers = {"Content-Type": "application/json"}
    if connection.password:
        headers["Authorization"] = f"Bearer {connection.password}"
    body = json.dumps(asdict(event)).encode()
    request = Request(address(connection), data=body, headers=headers, method="POST")  # noqa: S310 - checked
    try:
        with build_opener(_NoRedirect).open(request, timeout=TIMEOUT_SECONDS):
            log.info("notified %s of %s", webhook or DEFAULT_WEBHOOK, event.event)
    except HTTPError as error:
        if not 300 <= error.code < 400:
            raise
        raise SettingsError(
            f"it answered with a redirect ({error.code}), which is not followed: the token is for the "
            f"connection's own host; put the new address into the connection {connection.conn_id!r}"
        ) from None


class _NoRedirect(HTTPRedirectHandler):
    """Refuse redirects, because the bearer token is for the configured host only."""

    def redirect_request(self, *args: Any, **options: Any) -> None:
        return None


def address(connection: Connection) -> str:
    """Return a connection's address, from a form (host, port, schema) or from a URI (path in schema)."""
    host, schema = connection.host or "", connection.schema or ""
    web = ("http", "https")
    scheme = next((word for word in (schema, connection.conn_type) if word in web), "https")
    parts = urlsplit(host if "://" in host else f"{scheme}://{host}")
    if connection.port:
        parts = parts._replace(netloc=f"{parts.hostname}:{connection.port}")
    if schema and schema not in web:
        parts = parts._replace(path=f"/{schema.lstrip('/')}")
    if parts.scheme not in web or not parts.hostname:
        raise SettingsError(
            f"the connection {connection.conn_id!r} is not a web address (http or https, with a host)"
        )
    return parts.geturl()


def _connection(webhook: str | None) -> Connection | None:
    """Return the named connection; None if the default one does not exist."""
    found = find_connection(webhook or DEFAULT_WEBHOOK)
    if found is None and webhook is not None:
        raise SettingsError(f"there is no Airflow connection {webhook!r}")
    return found
