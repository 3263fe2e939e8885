"""The registry from a terminal: status, history, promote, rollback, retire, verify."""

import getpass
import os
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import click

from slc_ops.base.console import emit_json, json_option, print_records, print_table, say
from slc_ops.base.errors import RegistryError, SettingsError
from slc_ops.base.text import interval
from slc_ops.base.window import Window
from slc_ops.settings.deployments import Places, read_deployments
from slc_ops.settings.environment import TerminalVariables

if TYPE_CHECKING:
    from slc_ops.registry import ChampionChange, Registry, Version
    from slc_ops.registry.rules import Against

deployment_option = click.option(
    "--deployment", required=True, metavar="NAME", help="The deployment, by its name in the deployments file."
)
actor_option = click.option(
    "--actor", metavar="NAME", help="Who decides; recorded. Default: SLC_OPS_ACTOR, or the user's login name."
)


@click.command()
@json_option
def status(json_path: str | None) -> None:
    """Show the champion and challenger of every deployment.

    The answer comes from the ledger. Where an alias in MLflow says something else, a line tells so.
    """
    from slc_ops.refresh.backbone import read_news

    registry = _registry()
    answer = registry.status(_named_deployments(registry.places))
    emit_json(json_path, answer)
    rows = []
    for name, entry in answer["deployments"].items():
        rows.append([name, "", "", "", ""])
        rows += [[f"  {role}", *_cells(entry[role])] for role in ("champion", "challenger")]
    columns = ["deployment", "version", "method", "window", "verdict"]
    print_table(json_path, "Deployments", columns, rows, whole=["version", "window", "verdict"])
    say(json_path, f"ledger {answer['ledger_url']}")
    say(json_path, f"MLflow {answer['tracking_uri']}")
    for name, entry in answer["deployments"].items():
        for line in _serves(name, entry["serves"]):
            say(json_path, line)
        if (change := entry["retired"]) is not None:
            when = change["at"].replace("T", " ")[:16]
            told = f"retired at {when} UTC by {change['actor']}: {change['reason']}"
            say(json_path, f"{name}: no champion, the frozen model serves ({told})")
        for sentence in entry["taken_back"]:
            say(json_path, f"{name}: {sentence}")
        champion = None if entry["champion"] is None else int(entry["champion"]["version"])
        if (news := read_news(registry.places, name, champion)) is not None:
            say(json_path, f"{name}: {news.sentence}")
        for finding in entry["findings"]:
            click.echo(f"{name}: {finding['sentence']} (see slc-ops verify)", err=True)


def _serves(name: str, found: dict[str, Any] | None) -> Iterator[str]:
    """What serves, in lines that fit a narrow terminal."""
    if found is None:
        return
    since, parameters = (Window.from_dict(found[key]).key for key in ("since", "parameters"))
    yield f"{name}: {found['method']} serves since window {since}"
    yield f"  its parameters are of window {parameters}"
    series = found["series"] or {}
    for key, than in (("vs_platt", "Platt"), ("vs_base", "frozen")):
        if key in series:
            shown = interval(**series[key])
            yield f"  NLL against {than:6} {shown}, mean of {series['windows']} windows"


@click.command()
@deployment_option
@json_option
def history(deployment: str, json_path: str | None) -> None:
    """Show a deployment's line of champions, oldest first: who moved it, when and why."""
    moves = _registry(deployment).history(deployment)
    emit_json(json_path, {"deployment": deployment, "moves": [move.as_dict() for move in moves]})
    print_records(json_path, f"Champions of {deployment}", [_record(move) for move in moves])
    if not moves:
        say(json_path, "no version has been promoted yet")


@click.command()
@deployment_option
@click.option("--version", type=int, metavar="N", help="The version. Default: the challenger.")
@click.option("--reason", metavar="TEXT", help="Why; recorded.")
@click.option("--override", metavar="TEXT", help="Promote although the evidence says reject, and record why.")
@click.option(
    "--against", metavar="N|none", callback=lambda _, __, text: _against(text),
    help="Refuse if the champion is not version N any more, or if there is one by now.",
)  # fmt: skip
@actor_option
@json_option
def promote(
    deployment: str,
    version: int | None,
    reason: str | None,
    override: str | None,
    against: "Against | None",
    actor: str | None,
    json_path: str | None,
) -> None:
    """Make a version the champion.

    An older window never replaces a newer one, and what the evidence rejects needs --override.
    """
    registry = _registry(deployment, writes=True)
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
    _show_champion(json_path, deployment, champion)
    if before is None or before.number != champion.number:
        _tell("promotion", champion, who, why)


@click.command()
@deployment_option
@click.option("--to", type=int, metavar="N", help="An earlier champion. Default: the one before this one.")
@click.option(
    "--for", "windows", type=click.IntRange(1, 1000), metavar="N",
    help="Let the method that is taken back return by rule after N windows. Default: only a person brings it "
    "back.",
)  # fmt: skip
@click.option(
    "--exclude-window", is_flag=True, help="Leave the window of the version taken back out of later fits."
)
@click.option("--reason", metavar="TEXT", help="Why; recorded.")
@actor_option
@json_option
def rollback(
    deployment: str,
    to: int | None,
    windows: int | None,
    exclude_window: bool,
    reason: str | None,
    actor: str | None,
    json_path: str | None,
) -> None:
    """Make an earlier champion the champion again, at once.

    From then on only later windows move the champion by rule, and the method that was taken back waits.
    """
    why, who = reason or "rolled back from the command line", acting(actor)
    registry = _registry(deployment, writes=True)
    champion = registry.rollback(
        deployment, to, actor=who, reason=why, windows=windows, exclude_window=exclude_window
    )
    _show_champion(json_path, deployment, champion)
    _tell("rollback", champion, who, why)


@click.command()
@deployment_option
@click.option("--reason", metavar="TEXT", required=True, help="Why; recorded.")
@click.option(
    "--against", type=int, metavar="N", help="Refuse if the champion is not version N any more."
)  # fmt: skip
@actor_option
@json_option
def retire(
    deployment: str, reason: str, against: int | None, actor: str | None, json_path: str | None
) -> None:
    """Let the frozen model serve again: the champion goes, and nobody comes.

    Serving hosts fall back to the frozen probabilities when they next look. promote leads out of it,
    rollback brings the retired champion back. Retiring twice changes nothing.
    """
    registry = _registry(deployment, writes=True)
    before = registry.champion(deployment)
    change = registry.retire(deployment, actor=acting(actor), reason=reason, against=against)
    emit_json(json_path, {"deployment": deployment, "champion": None, "change": change.as_dict()})
    if before is None:
        say(json_path, f"{deployment} has no champion already: {change}")
        return
    say(json_path, f"champion of {deployment}: none, the frozen model serves (version {before.number} went)")
    if _somebody_listens():
        with redirect_stdout(sys.stderr):  # Airflow would log to where our answer goes
            from slc_ops.observability.links import terminal_links
            from slc_ops.observability.notify import announce_retirement

            announce_retirement(change, {}, terminal_links(deployment, change.window, None))


def _tell(event: str, champion: "Version", who: str, why: str) -> None:
    """Tell people of a champion that was made by hand."""
    if _somebody_listens():
        with redirect_stdout(sys.stderr):  # Airflow would log to where our answer goes
            from slc_ops.observability.links import terminal_links
            from slc_ops.observability.notify import announce_champion

            links = terminal_links(champion.deployment, champion.window, champion.number)
            announce_champion(event, champion, who, why, {}, links)


def _somebody_listens() -> bool:
    """Whether there is an Airflow, whose connections say whom to tell."""
    return "AIRFLOW_HOME" in os.environ


@click.command()
@click.option("--deployment", metavar="NAME", help="One deployment. Default: all.")
@click.option(
    "--repair",
    is_flag=True,
    help="Write a lost row of the ledger again; set MLflow's aliases to what it says.",
)
@json_option
def verify(deployment: str | None, repair: bool, json_path: str | None) -> None:
    """Compare the ledger with MLflow, and recompute the champion's golden vectors.

    Exit code 0 when everything agrees (or was repaired), 2 when something is left.
    """
    registry = _registry(deployment, writes=repair)
    names = registry.ledger.deployments() if deployment is None else [deployment]
    findings = {name: registry.verify(name, repair=repair) for name in names}
    emit_json(
        json_path, {"deployments": {name: [f.as_dict() for f in found] for name, found in findings.items()}}
    )
    for found in findings.values():
        for finding in found:
            say(json_path, f"{finding.code}: {finding}")
    left = [f for found in findings.values() for f in found if f.code not in ("repaired", "interrupted")]
    if left:
        advice = (
            "slc-ops verify --repair sets the aliases right"
            if any(f.repairable for f in left)
            else "see above"
        )
        raise RegistryError(f"{len(left)} difference(s) between the ledger and MLflow; {advice}")
    say(
        json_path,
        f"ledger and MLflow agree on {', '.join(names) or 'nothing yet: no deployment has published'}",
    )


def _registry(deployment: str | None = None, *, writes: bool = False) -> "Registry":
    """The registry of the environment; a deployment that it does not know is refused.

    Looking makes nothing: a command in the wrong directory says where it looked, and leaves no trace.
    """
    from slc_ops.registry import Registry

    places = Places.from_environment()
    registry = Registry.open(places, create=False)
    ledger = registry.ledger
    if deployment is not None:
        known = ledger.deployments()
        if deployment not in known:
            raise RegistryError(
                f"nothing was ever published for a deployment {deployment!r}; {_looked_in(registry)} knows: "
                f"{', '.join(known) or 'none yet'}"
            )
    elif not ledger.database.present:
        click.echo(f"{_looked_in(registry)} holds nothing: no refresh has published here", err=True)
    return Registry.open(places) if writes and ledger.database.present else registry


def _looked_in(registry: "Registry") -> str:
    database = registry.ledger.database
    there = "the ledger" if database.present else "there is no ledger"
    if database.present:
        return f"{there} {database.shown}"
    return f"{there} {database.shown} (SLC_OPS_HOME or SLC_OPS_LEDGER_URL says where to look), so it"


def _named_deployments(places: Places) -> list[str]:
    """The deployments of the file; a file that is broken is said and does not hide what the ledger knows."""
    if not places.deployments_file.exists():
        return []
    try:
        return list(read_deployments(places.deployments_file)[0])
    except SettingsError as error:
        click.echo(str(error), err=True)
        return []


def _against(text: str | None) -> "Against | None":
    """A version's number, or that there was no champion."""
    from slc_ops.registry.rules import NO_CHAMPION

    if text is None:
        return None
    if text == NO_CHAMPION:
        return NO_CHAMPION
    if not text.isdecimal():
        raise click.BadParameter(f"expected a version's number or 'none', found {text!r}")
    return int(text)


def acting(given: str | None) -> str:
    """Who a command acts for: who was named, else SLC_OPS_ACTOR, else the login name."""
    return given or TerminalVariables.read().actor or getpass.getuser()


def _show_champion(json_path: str | None, deployment: str, champion: "Version") -> None:
    emit_json(json_path, {"deployment": deployment, "champion": champion.as_dict()})
    say(
        json_path,
        f"champion of {deployment}: version {champion.number} ({champion.method}, window {champion.window})",
    )


def _record(move: "ChampionChange") -> tuple[str, list[str]]:
    """A move for people: what and when in one line, then the window, who and why, each on its own."""
    versions = f"{move.from_version or 'none'} → {move.to_version or 'none'}"
    line = f"{move.revision:>3}  {move.at:%Y-%m-%d %H:%M:%S} UTC  {move.kind} {versions}"
    details = [f"window {move.window}", f"by {move.actor}", f"why: {move.reason}"]
    return line, details + ([f"override: {move.override}"] if move.override else [])


def _cells(version: dict[str, Any] | None) -> list[str]:
    if version is None:
        return ["none", "", "", ""]
    window = str(Window.from_dict(version["window"]))
    if "T" in window:  # hours as well: a date in each of two lines
        window = window.replace("/", "/\n")
    return [str(version["version"]), version["method"], window, version["verdict"]]
