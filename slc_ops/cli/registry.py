"""Commands that change the champion: promote, rollback, retire."""

import getpass
import os
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING

import click

from slc_ops.base.console import emit_json, json_option, say
from slc_ops.base.errors import RegistryError
from slc_ops.cli import options
from slc_ops.settings.environment import Installation, TerminalVariables

if TYPE_CHECKING:
    from slc_ops.base.window import Window
    from slc_ops.registry import Registry, Version
    from slc_ops.registry.rules import Against

for_option = click.option(
    "--for", "windows", type=click.IntRange(1, 1000), metavar="N",
    help="Let the withdrawn method return by rule after N windows. Default: only a person can promote it.",
)  # fmt: skip


@click.command()
@options.deployment
@click.option("--version", type=int, metavar="N", help="The version. Default: the challenger.")
@click.option("--reason", metavar="TEXT", help="Why; recorded.")
@click.option(
    "--override",
    metavar="TEXT",
    help="Promote although the evidence rejects the version; the reason is recorded.",
)
@click.option(
    "--against", metavar="N|none", callback=lambda _, __, text: _against(text),
    help="Refuse if the champion is no longer version N, or (none) if there is one.",
)  # fmt: skip
@options.actor
@json_option
def promote(
    deployment: str,
    version: int | None,
    reason: str | None,
    override: str | None,
    against: "Against | None",
    actor: str | None,
) -> None:
    """Make a version the champion.

    An older window never replaces a newer one; a version that the evidence rejects needs --override.
    """
    registry = open_registry(deployment, writes=True)
    if version is None:
        challenger = registry.challenger(deployment)
        if challenger is None:
            raise RegistryError(f"{deployment} has no challenger to promote; name a version with --version")
        version = challenger.number
    before, who = registry.champion(deployment), acting(actor)
    why = reason or override or "promoted from the command line"
    champion = registry.promote(
        deployment, version, actor=who, reason=why, override=override, against=against
    )
    _show_champion(deployment, champion)
    if before is None or before.number != champion.number:
        _notify_champion("promotion", champion, who, why)


@click.command()
@options.deployment
@click.option("--to", type=int, metavar="N", help="An earlier champion. Default: the previous one.")
@for_option
@click.option(
    "--exclude-window", is_flag=True, help="Leave the window of the rolled-back version out of later fits."
)
@click.option("--reason", metavar="TEXT", help="Why; recorded.")
@options.actor
@json_option
def rollback(
    deployment: str,
    to: int | None,
    windows: int | None,
    exclude_window: bool,
    reason: str | None,
    actor: str | None,
) -> None:
    """Restore an earlier champion immediately.

    Afterwards only later windows change the champion by rule. The method that was rolled back returns by rule
    after --for windows, otherwise only by promote.
    """
    why, who = reason or "rolled back from the command line", acting(actor)
    registry = open_registry(deployment, writes=True)
    champion = registry.rollback(
        deployment, to, actor=who, reason=why, windows=windows, exclude_window=exclude_window
    )
    _show_champion(deployment, champion)
    _notify_champion("rollback", champion, who, why)


@click.command()
@options.deployment
@click.option("--reason", metavar="TEXT", required=True, help="Why; recorded.")
@click.option(
    "--against", type=int, metavar="N", help="Refuse if the champion is no longer version N."
)  # fmt: skip
@for_option
@options.actor
@json_option
def retire(deployment: str, reason: str, against: int | None, windows: int | None, actor: str | None) -> None:
    """Remove the champion; the frozen model serves until a version is promoted.

    Serving hosts return the frozen probabilities after their next check of the registry. promote ends the
    retirement, rollback restores the retired champion. Retiring twice has no effect.
    """
    registry = open_registry(deployment, writes=True)
    before = registry.champion(deployment)
    change = registry.retire(deployment, actor=acting(actor), reason=reason, against=against, windows=windows)
    emit_json({"deployment": deployment, "champion": None, "change": change.as_dict()})
    if before is None:
        say(f"{deployment} has no champion already: {change}")
        return
    say(f"champion of {deployment}: none, the frozen model serves (version {before.number} went)")
    from slc_ops.observability.notify import retirement_sentence

    _notify("retired", deployment, retirement_sentence(change), change.window)


def _notify_champion(event: str, champion: "Version", who: str, why: str) -> None:
    from slc_ops.observability.notify import champion_sentence

    sentence = champion_sentence(event, champion, who, why)
    _notify(event, champion.deployment, sentence, champion.window, champion.number)


def _notify(event: str, deployment: str, sentence: str, window: "Window", version: int | None = None) -> None:
    """Notify of a change by hand, if Airflow is present: its connections define the recipients."""
    if "AIRFLOW_HOME" not in os.environ:
        return
    with redirect_stdout(sys.stderr):  # Airflow would log to stdout, where the result goes
        from slc_ops.observability.links import terminal_links
        from slc_ops.observability.notify import announce

        links = terminal_links(deployment, window, version)
        announce(event, deployment, sentence, {}, window=str(window), links=links)


def open_registry(deployment: str | None = None, *, writes: bool = False) -> "Registry":
    """Open the registry of the environment; raise `RegistryError` for an unknown deployment.

    Reading creates no files: in a wrong directory the error names the location that was searched.
    """
    from slc_ops.registry import Registry

    installation = Installation.from_environment()
    registry = Registry.open(installation, create=False)
    ledger = registry.ledger
    if deployment is not None:
        known = ledger.deployments()
        if deployment not in known:
            raise RegistryError(
                f"nothing was ever published for a deployment {deployment!r}; {_looked_in(registry)} has: "
                f"{', '.join(known) or 'none yet'}"
            )
    elif not ledger.database.present:
        click.echo(f"{_looked_in(registry)} holds nothing: no refresh has published here", err=True)
    return Registry.open(installation) if writes and ledger.database.present else registry


def _looked_in(registry: "Registry") -> str:
    database = registry.ledger.database
    there = "the ledger" if database.present else "there is no ledger"
    if database.present:
        return f"{there} {database.shown}"
    return f"{there} {database.shown} (set SLC_OPS_HOME or SLC_OPS_LEDGER_URL to its location), so it"


def _against(text: str | None) -> "Against | None":
    """Parse a version number or "none" (no champion)."""
    from slc_ops.registry.rules import NO_CHAMPION

    if text is None:
        return None
    if text == NO_CHAMPION:
        return NO_CHAMPION
    if not text.isdecimal():
        raise click.BadParameter(f"expected a version's number or 'none', found {text!r}")
    return int(text)


def acting(given: str | None) -> str:
    """Return the actor: the given name, else SLC_OPS_ACTOR, else the login name."""
    return given or TerminalVariables.read().actor or getpass.getuser()


def _show_champion(deployment: str, champion: "Version") -> None:
    emit_json({"deployment": deployment, "champion": champion.as_dict()})
    say(f"champion of {deployment}: version {champion.number} ({champion.method}, window {champion.window})")
