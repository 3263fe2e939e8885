"""The corrector over HTTP: an ASGI application, for uvicorn (``slc-ops serve``) or mounted in another.

Every route is a plain function from a request to a reply; ``endpoint`` contains the shared parts.
"""

import base64
import binascii
import hashlib
import hmac
import time
from functools import cache, partial
from pathlib import Path

from starlette.routing import Route, Router

from slc_ops import __version__
from slc_ops.parameters.effects import COLUMNS
from slc_ops.serving import formats, inference
from slc_ops.serving.answers import Answer, Columns
from slc_ops.serving.corrector import Corrector
from slc_ops.serving.endpoint import (
    Application,
    Asked,
    Endpoint,
    Limits,
    Receive,
    Refused,
    Reply,
    Scope,
    Send,
    Shared,
    Work,
)

_TOLERANCE = 300.0
"""Maximum difference in seconds between the clocks of MLflow and this host."""


def app(
    corrector: Corrector,
    *,
    token: str | None = None,
    webhook_secret: str | None = None,
    limits: Limits | None = None,
) -> Application:
    """Return the ASGI application.

    Args:
        corrector: The corrector that answers; the caller closes it.
        token: Bearer token; requests without it get 401, except probes and the webhook.
        webhook_secret: Secret of MLflow's webhook signatures; without it the route does not exist.
        limits: Limits of bytes, rows and seconds.
    """
    shared = Shared(corrector, token, limits or Limits())
    routes = _Routes(corrector, shared)
    model, version = "/v2/models/{model}", "/v2/models/{model}/versions/{version}"
    table: dict[str, dict[str, Work]] = {
        "/correct": {"POST": routes.correct},
        "/invocations": {"POST": routes.invocations},
        f"{model}/infer": {"POST": routes.infer},
        f"{version}/infer": {"POST": routes.infer},
        model: {"GET": routes.model},
        version: {"GET": routes.model},
        f"{model}/ready": {"GET": routes.model_ready},
        f"{version}/ready": {"GET": routes.model_ready},
        "/v2": {"GET": routes.server},
        "/health": {"GET": routes.health},
        "/version": {"GET": routes.version},
        "/metrics": {"GET": routes.metrics},
        "/openapi.json": {"GET": routes.openapi},
    }
    endpoints = {path: Endpoint(shared, path, works) for path, works in table.items()}
    for probe in ("/ping", "/v2/health/live", "/v2/health/ready"):
        endpoints[probe] = Endpoint(shared, probe, {"GET": routes.alive}, is_open=True)
    if webhook_secret is not None:
        signed = partial(routes.webhook, webhook_secret.encode())
        hook = Endpoint(shared, "/webhooks/mlflow", {"POST": signed}, is_open=True, in_thread=True)
        endpoints["/webhooks/mlflow"] = hook
    router = Router(
        [Route(path, endpoint) for path, endpoint in endpoints.items()],
        redirect_slashes=False,
        default=Endpoint(shared, "", {}),
    )

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        # The router tests patterns in sequence; an unmounted path without a pattern is found directly.
        known = endpoints.get(scope["path"]) if scope["type"] == "http" and not scope["root_path"] else None
        await (known or router)(scope, receive, send)

    return application


class _Routes:
    """The handler of each route."""

    def __init__(self, corrector: Corrector, shared: "Shared") -> None:
        self._corrector, self._shared, self._rows = corrector, shared, shared.limits.rows

    def correct(self, asked: Asked) -> Reply:
        kind, interval = asked.kind, asked.interval
        if kind == formats.JSON:
            found = self._answer(formats.json_columns(asked.body, self._rows), interval)
            return Reply(formats.json_answer(found, interval))
        if kind == formats.ARROW:
            found = self._answer(formats.arrow_columns(asked.body, self._rows), interval)
            return Reply(formats.arrow_answer(found, interval), formats.ARROW)
        raise Refused(
            400, f"the content type is {kind or 'missing'!r:.60}; expected {formats.JSON} or {formats.ARROW}"
        )

    def invocations(self, asked: Asked) -> Reply:
        if asked.kind != formats.JSON:
            raise Refused(
                400, f"the content type is {asked.kind or 'missing'!r:.60}; expected {formats.JSON}"
            )
        found = self._answer(formats.frame_columns(asked.body, self._rows), asked.interval)
        return Reply(formats.frame_answer(found, asked.interval))

    def infer(self, asked: Asked) -> Reply:
        self._check_model(asked)
        length = asked.headers.get(inference.HEADER.encode())
        request = inference.Request(
            asked.body, None if length is None else length.decode("latin-1"), self._rows
        )
        version = int(asked.path["version"]) if "version" in asked.path else None
        found = self._answer(request.columns, request.interval, version)
        body, head = inference.answer_bytes(request, found, self._corrector.deployment)
        if head is None:
            return Reply(body)
        return Reply(body, "application/octet-stream", headers={inference.HEADER: str(head)})

    def model(self, asked: Asked) -> Reply:
        self._check_model(asked)
        return Reply(formats.dumps(inference.metadata(self._corrector)))

    def model_ready(self, asked: Asked) -> Reply:
        self._check_model(asked)
        return Reply(formats.dumps({"name": self._corrector.deployment, "ready": True}))

    def server(self, asked: Asked) -> Reply:
        known = {"name": "slc-ops", "version": __version__, "extensions": ["binary_tensor_data"]}
        return Reply(formats.dumps(known))

    def alive(self, asked: Asked) -> Reply:
        return Reply(b"{}")

    def health(self, asked: Asked) -> Reply:
        return Reply(formats.dumps(self._corrector.health()))

    def version(self, asked: Asked) -> Reply:
        found = self._corrector.health()
        names = ("version", "method", "serves", "window", "backbone_version", "loaded_at")
        return Reply(
            formats.dumps(
                {"deployment": self._corrector.deployment, "versions": self._corrector.versions}
                | {name: found[name] for name in names}
                | {"release": __version__}
            )
        )

    def metrics(self, asked: Asked) -> Reply:
        text = self._corrector.metrics() + self._shared.requests.exposition()
        return Reply(text.encode(), "text/plain; version=0.0.4; charset=utf-8")

    def openapi(self, asked: Asked) -> Reply:
        return Reply(_description(self._rows))

    def webhook(self, secret: bytes, asked: Asked) -> Reply:
        """Check the registry after MLflow's notification; the notification's content is not used."""
        _check_signature(secret, asked)
        return Reply(formats.dumps({"changed": self._corrector.refresh()}))

    def _answer(self, given: formats.Given, interval: bool, version: int | None = None) -> Answer:
        ids = {name: given[column] for name, column in COLUMNS.items() if column in given}
        columns = Columns(given["logit"], ids, given.get("time"))
        return self._corrector.answer_columns(columns, given.get("backbone_version"), interval, version)

    def _check_model(self, asked: Asked) -> None:
        if asked.path["model"] != self._corrector.deployment:
            raise Refused(
                404, f"no model {asked.path['model']!r:.60}; {self._corrector.deployment!r} is served"
            )
        version = asked.path.get("version")
        if version is not None and version not in map(str, self._corrector.versions):
            served = ", ".join(map(str, self._corrector.versions)) or "none"
            raise Refused(404, f"version {version!r:.40} is not served here; served: {served}")


@cache
def _description(max_rows: int) -> bytes:
    """Return the description of all routes, with their request and response types."""
    import yaml

    found = yaml.safe_load(Path(__file__).with_name("openapi.yaml").read_text(encoding="utf-8"))
    said = f"Columns of a request have equal lengths, at most {max_rows} rows."
    return formats.dumps(found | {"info": {**found["info"], "version": __version__, "description": said}})


def _check_signature(secret: bytes, asked: Asked) -> None:
    """Check MLflow's signature: HMAC-SHA256 over delivery id, timestamp and body; a replayed one expires."""
    names = (b"x-mlflow-delivery-id", b"x-mlflow-timestamp", b"x-mlflow-signature")
    delivery, stamp, signature = (asked.headers.get(name, b"") for name in names)
    expected = hmac.new(secret, b".".join((delivery, stamp, asked.body)), hashlib.sha256).digest()
    try:
        given = base64.b64decode(signature.removeprefix(b"v1,"), validate=True)
    except binascii.Error:
        given = b""
    if not hmac.compare_digest(given, expected):
        raise Refused(401, "the webhook is not signed with the secret of this server")
    if not stamp.isdigit() or abs(time.time() - int(stamp)) > _TOLERANCE:
        raise Refused(401, f"the webhook is more than {_TOLERANCE:.0f} s old, or from the future")
