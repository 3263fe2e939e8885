"""``python -m slc_ops.production``: the commands of containers and systemd units."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from slc_ops.base.console import run_app
from slc_ops.base.errors import SettingsError
from slc_ops.production import compose
from slc_ops.production.checks import check_servers, check_surroundings, write_auth_file
from slc_ops.production.health import SERVICES, unhealthy_reason
from slc_ops.production.init import initialise
from slc_ops.production.stores import restore_artifacts, save_artifacts
from slc_ops.settings.environment import ServiceVariables

anything = {"ignore_unknown_options": True, "allow_interspersed_args": False}
command_argument = click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)


@click.group()
def app() -> None:
    """Run and check the services of docker-compose.yaml."""


@app.command()
@click.option("--only-databases", is_flag=True, help="End at users and empty databases, for a restore.")
def init(only_databases: bool) -> None:
    """Prepare databases, schemas and logins; a repeated run is safe."""
    initialise(os.environ, lambda text: click.echo(f"init: {text}"), only_databases=only_databases)


@app.command(context_settings=anything)
@command_argument
def run(command: tuple[str, ...]) -> None:
    """Check this service's environment, then execute COMMAND."""
    check_surroundings(os.environ)
    check_servers(os.environ)
    write_auth_file(os.environ)
    compose.execute(list(command), os.environ)


def host_options(function: Any) -> Any:
    """Add options for the paths of the compose file and the env file."""
    file = click.Path(dir_okay=False, path_type=Path)
    options = (
        click.option("--env-file", type=file, default=lambda: ServiceVariables.read().env_file),
        click.option("--compose-file", type=file, default=lambda: ServiceVariables.read().compose_file),
    )
    for option in options:
        function = option(function)
    return function


@app.command(context_settings=anything)
@host_options
@click.option("--show", is_flag=True, help="Print command and variables, secrets hidden; run nothing.")
@click.argument("name")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def service(compose_file: Path, env_file: Path, show: bool, name: str, arguments: tuple[str, ...]) -> None:
    """Run the service NAME of the compose file on this host; ARGUMENTS are added to its command."""
    found = compose.read_service(compose_file, name, compose.read_env_file(env_file))
    if show:
        for key, value in found.shown().items():
            click.echo(f"{key}={value}")
        click.echo(" ".join(found.command))
    else:
        found.exec([*found.command, *arguments])


@app.command("exec", context_settings=anything)
@host_options
@click.argument("name")
@command_argument
def exec_(compose_file: Path, env_file: Path, name: str, command: tuple[str, ...]) -> None:
    """Run COMMAND on this host with the variables of the service NAME."""
    compose.read_service(compose_file, name, compose.read_env_file(env_file)).exec(list(command))


@app.command()
@host_options
@click.option("--digests", is_flag=True, help="Refuse an image that is not named by its digest.")
def images(compose_file: Path, env_file: Path, digests: bool) -> None:
    """List the images of this installation; refuse a floating name."""
    settings = compose.read_env_file(env_file) if env_file.exists() else {}
    for name, image in compose.images(compose_file, settings).items():
        pinned = compose.is_pinned(image)
        click.echo(f"{name}: {image} ({'by digest' if pinned else 'by version'})")
        if digests and not pinned:
            raise SettingsError(f"{image} of {name} is named by version, not by digest; docs/settings.md")


@app.command()
@click.argument("name", type=click.Choice(SERVICES))
def healthy(name: str) -> None:
    """Exit 0 if the service NAME is healthy, 1 with a reason otherwise."""
    if reason := unhealthy_reason(name, os.environ):
        click.echo(reason, err=True)
        sys.exit(1)


@app.command()
@click.argument("direction", type=click.Choice(["save", "restore"]))
@click.argument("directory", type=click.Path(path_type=Path))
def artifacts(direction: str, directory: Path) -> None:
    """Copy the artifact store into DIRECTORY (save), or DIRECTORY into it (restore)."""
    copy = save_artifacts if direction == "save" else restore_artifacts
    click.echo(f"artifacts: {copy(os.environ, directory)} files")


if __name__ == "__main__":
    run_app(app)
