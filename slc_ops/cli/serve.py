"""``serve``: the corrector over HTTP."""

import os
import socket
from ipaddress import ip_address
from pathlib import Path

import click

from slc_ops.base.console import emit_json, json_option
from slc_ops.base.errors import SettingsError
from slc_ops.base.extras import require
from slc_ops.base.passwords import weakness
from slc_ops.settings.environment import Installation, RegistryVariables, ServeVariables


@click.command()
@click.option("--deployment", metavar="D", help="Follow the champion of a deployment in the registry.")
@click.option(
    "--params", type=click.Path(path_type=Path), metavar="DIR", help="Serve a parameter set instead."
)
@click.option("--host", default="127.0.0.1", help="Interface; others than loopback need a token.")
@click.option("--port", type=click.IntRange(0, 65_535), default=8080, help="Port; 0 selects a free one.")
@click.option(
    "--every",
    type=click.FloatRange(0.1, 86_400),
    default=30.0,
    help="Seconds between checks of the registry.",
)
@click.option(
    "--canary",
    type=float,
    metavar="SHARE",
    help="This share of users gets the challenger's answers, e.g. 0.05.",
)
@click.option(
    "--by",
    type=click.Choice(["user", "item", "group"]),
    default="user",
    help="Effect whose ids select the canaries.",
)
@click.option("--max-rows", type=click.IntRange(1), default=100_000, help="Maximum rows of a request.")
@click.option("--max-mb", type=click.IntRange(1, 4096), default=16, help="Maximum size of a request.")
@click.option(
    "--timeout", type=click.FloatRange(0.1, 3600), default=30.0, help="Time limit of a request, in seconds."
)
@json_option
def serve(
    deployment: str | None,
    params: Path | None,
    host: str,
    port: int,
    every: float,
    canary: float | None,
    by: str,
    max_rows: int,
    max_mb: int,
    timeout: float,
) -> None:
    """Serve corrections over HTTP until stopped: JSON, Arrow, MLflow's and the Open Inference Protocol.

    Clients send the bearer token in SLC_OPS_SERVE_TOKEN, if it is set. MLflow's webhooks, signed with
    SLC_OPS_SERVE_WEBHOOK_SECRET, trigger an immediate check of the registry. --json prints the address.
    """
    require("slc-ops serve", "serve")
    from slc_ops.serving.corrector import Corrector
    from slc_ops.serving.endpoint import Limits
    from slc_ops.serving.running import run
    from slc_ops.serving.server import app

    if (deployment is None) == (params is None):
        raise click.UsageError("give either --deployment or --params")
    if params is not None and canary is not None:
        raise click.UsageError("--canary needs --deployment: a parameter set has no challenger")
    token, secret = _secrets(host)
    listener = _listen(host, port)
    if params is not None:
        corrector = Corrector.from_directory(params)
    else:
        corrector = Corrector.from_registry(
            Installation.from_environment().registry_uri,
            str(deployment),
            interval=every,
            schema=RegistryVariables.read().model_schema,
            canary=canary,
            by=by,
        )
    with corrector:
        limits = Limits(bytes=max_mb << 20, rows=max_rows, seconds=timeout)
        application = app(corrector, token=token, webhook_secret=secret, limits=limits)
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listener.getsockname()[1]}"
        health = corrector.health()
        listener.listen()  # a client that reads the address can connect at once
        emit_json({"address": address, "pid": os.getpid(), "version": health["version"]})
        click.echo(f"{corrector.deployment}, {health['method']}, on {address}", err=True)
        run(application, listener, timeout)


def _secrets(host: str) -> tuple[str | None, str | None]:
    """Return token and webhook secret; refuse weak ones, and a missing token on a public interface."""
    found = ServeVariables.read()
    token, secret = (each.get_secret_value() or None for each in (found.token, found.webhook_secret))
    for name, value in (("SLC_OPS_SERVE_TOKEN", token), ("SLC_OPS_SERVE_WEBHOOK_SECRET", secret)):
        if value is not None and (fault := weakness(value)):
            raise SettingsError(f"{name} is too weak: {fault}; make env writes a good one")
    if token is None and not _is_loopback(host):
        raise SettingsError(f"others can reach {host}: set SLC_OPS_SERVE_TOKEN, or listen on 127.0.0.1")
    return token, secret


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise SettingsError(f"cannot listen on {host}:{port}: {error.strerror}") from None
    return listener
