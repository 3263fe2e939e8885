"""Read-only commands: status, history, verify, schema."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slc_ops.base.console import emit_json, json_option, print_lines, print_table, say
from slc_ops.base.errors import RegistryError, SettingsError
from slc_ops.base.files import write_text
from slc_ops.base.text import interval
from slc_ops.base.window import Window
from slc_ops.cli import options
from slc_ops.cli.registry import open_registry
from slc_ops.settings.deployments import json_schema
from slc_ops.settings.deployments_file import read_deployments
from slc_ops.settings.environment import Installation

if TYPE_CHECKING:
    from slc_ops.observability.troubles import Trouble
    from slc_ops.registry import ChampionChange, Registry


@click.command()
@json_option
def status() -> None:
    """Show the champion and challenger of every deployment.

    The first line of each is ok or its problems (a window stopped or late, a failed step, an invalid entry, a
    moved alias, the disk) with the runbook. The rest comes from the ledger.
    """
    from slc_ops.observability.troubles import RUNBOOKS, Trouble
    from slc_ops.refresh.backbone import read_backbone_change

    registry = open_registry()
    answer = registry.status(_named_deployments(registry.installation))
    found = _troubles(registry, list(answer["deployments"]))
    for name, entry in answer["deployments"].items():
        aliases = [
            Trouble("alias", each["sentence"].removeprefix(f"{name}: "), f"{RUNBOOKS}restored-backup")
            for each in entry["findings"]
        ]
        found[name] = [*found[name], *aliases]
        entry["troubles"] = [each.as_dict() for each in found[name]]
    answer["broken"] = {
        n: [t.as_dict() for t in each] for n, each in found.items() if n not in answer["deployments"]
    }
    emit_json(answer)
    _say_troubles(found)
    rows = []
    for name, entry in answer["deployments"].items():
        rows.append([name, "", "", "", ""])
        rows += [[f"  {role}", *_cells(entry[role])] for role in ("champion", "challenger")]
    columns = ["deployment", "version", "method", "window", "verdict"]
    print_table("Deployments", columns, rows, whole=["version", "window", "verdict"])
    say(f"ledger {answer['ledger_url']}")
    say(f"MLflow {answer['tracking_uri']}")
    for name, entry in answer["deployments"].items():
        for line in _serves(name, entry["serves"]):
            say(line)
        if (change := entry["retired"]) is not None:
            when = change["at"].replace("T", " ")[:16]
            how = f"retired at {when} UTC by {change['actor']}: {change['reason']}"
            say(f"{name}: no champion, the frozen model serves ({how})")
        print_lines(f"{name}: {sentence}" for sentence in entry["taken_back"])
        champion = None if entry["champion"] is None else int(entry["champion"]["version"])
        if (change := read_backbone_change(registry.installation, name, champion)) is not None:
            say(f"{name}: {change.sentence}")


def _troubles(registry: "Registry", names: list[str]) -> "dict[str, list[Trouble]]":
    from slc_ops.observability.troubles import troubles

    return troubles(registry.installation, datetime.now(UTC), names)


def _say_troubles(found: "dict[str, list[Trouble]]") -> None:
    """Print one line per deployment: its problems, or ok."""
    print_lines(f"{name}: {'; '.join(map(str, each)) or 'ok'}" for name, each in found.items())


def _serves(name: str, found: dict[str, Any] | None) -> Iterator[str]:
    """Yield lines about the serving method, short enough for a narrow terminal."""
    if found is None:
        return
    since, parameters = (Window.from_dict(found[key]).key for key in ("since", "parameters"))
    yield f"{name}: {found['method']} serves since window {since}"
    yield f"  its parameters are of window {parameters}"
    for which, served in (("series", ""), ("since_start", " it served")):
        means = found[which] or {}
        for key, than in (("vs_platt", "Platt"), ("vs_base", "frozen")):
            if key in means:
                over = f"mean of {means['windows']} windows{served}"
                yield f"  NLL against {than:6} {interval(**means[key])}, {over}"


@click.command()
@options.deployment
@json_option
def history(deployment: str) -> None:
    """Show a deployment's champions, oldest first, with actor, time and reason of each change."""
    registry = open_registry(deployment)
    moves = registry.history(deployment)
    emit_json({"deployment": deployment, "moves": [move.as_dict() for move in moves]})
    lines = [line for move in moves for line in _record(move)]
    print_lines([f"Champions of {deployment}", *lines], indent="      ", fold=True)
    if not moves:
        say("no version has been promoted yet")
    _say_troubles({deployment: _troubles(registry, [deployment])[deployment]})


@click.command()
@click.option("--deployment", metavar="NAME", help="One deployment. Default: all.")
@click.option(
    "--repair",
    is_flag=True,
    help="Restore a lost row of the ledger; set MLflow's aliases to the ledger's state.",
)
@click.option(
    "--chain",
    is_flag=True,
    help="Check only the ledger's rows, without MLflow, for changes, removals and insertions.",
)
@click.option(
    "--public-key",
    "public_keys",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="With --chain: a key (PEM) that rows may be signed with. Default: that of SLC_OPS_LEDGER_KEY.",
)
@click.option("--head", metavar="HASH", help="With --chain: a recorded head; refuse a chain without it.")
@json_option
def verify(
    deployment: str | None, repair: bool, chain: bool, public_keys: tuple[Path, ...], head: str | None
) -> None:
    """Compare the ledger with MLflow, and recompute the champion's golden vectors.

    Exit code 0 if everything agrees (or was repaired), 2 if differences remain.
    """
    if not chain and (public_keys or head):
        raise click.UsageError("--public-key and --head belong to --chain")
    if chain and repair:
        raise click.UsageError("a chain cannot be repaired: --chain and --repair exclude each other")
    if head is not None and deployment is None:
        raise click.UsageError("--head is of one deployment's chain: name it with --deployment")
    registry = open_registry(deployment, writes=repair)
    names = registry.ledger.deployments() if deployment is None else [deployment]
    if chain:
        _verify_chain(registry, names, public_keys, head)
        return
    findings = {name: registry.verify(name, repair=repair) for name in names}
    emit_json({"deployments": {name: [f.as_dict() for f in found] for name, found in findings.items()}})
    for found in findings.values():
        for finding in found:
            say(f"{finding.code}: {finding}")
    _say_troubles({name: each for name, each in _troubles(registry, names).items() if each})
    left = [f for found in findings.values() for f in found if f.code not in ("repaired", "interrupted")]
    if left:
        advice = (
            "slc-ops verify --repair sets the aliases right"
            if any(f.repairable for f in left)
            else "see above"
        )
        raise RegistryError(f"{len(left)} difference(s) between the ledger and MLflow; {advice}")
    say(f"ledger and MLflow agree on {', '.join(names) or 'nothing yet: no deployment has published'}")


def _verify_chain(
    registry: "Registry", names: list[str], public_keys: tuple[Path, ...], head: str | None
) -> None:
    from slc_ops.registry.chain import Keys, check_chain

    keys = Keys.read(public_keys)
    found = {name: check_chain(registry.ledger, name, keys, head) for name in names}
    emit_json({"deployments": {name: each.as_dict() for name, each in found.items()}})
    for name, each in found.items():
        for problem in each.problems:
            say(f"{name}: {problem}")
        if not each.problems:
            signed = f"{each.signed} of {each.rows} rows signed" if each.signed else "no row is signed"
            checked = "" if keys is not None or not each.signed else ", not checked: name the --public-key"
            say(f"{name}: {each.rows} rows, unbroken; {signed}{checked}")
            say(f"  head {each.head}")
    broken = [name for name, each in found.items() if each.problems]
    if broken:
        raise RegistryError(
            f"the ledger of {', '.join(broken)} was changed after it was entered; compare it with its backup"
        )


def _named_deployments(installation: Installation) -> list[str]:
    """Return the deployments of the file; print an error for an invalid file and continue with the ledger."""
    if not installation.deployments_file.exists():
        return []
    try:
        return list(read_deployments(installation.deployments_file)[0])
    except SettingsError as error:
        click.echo(str(error), err=True)
        return []


def _record(move: "ChampionChange") -> list[str]:
    """Format a change of champion: one line with kind and time, then indented details."""
    versions = f"{move.from_version or 'none'} → {move.to_version or 'none'}"
    line = f"{move.revision:>3}  {move.at:%Y-%m-%d %H:%M:%S} UTC  {move.kind} {versions}"
    details = [f"window {move.window}", f"by {move.actor}", f"why: {move.reason}"]
    details += [f"override: {move.override}"] if move.override else []
    return [line, *(f"    {detail}" for detail in details)]


def _cells(version: dict[str, Any] | None) -> list[str]:
    if version is None:
        return ["none", "", "", ""]
    window = str(Window.from_dict(version["window"]))
    if "T" in window:  # with hours, each date gets its own line
        window = window.replace("/", "/\n")
    return [str(version["version"]), version["method"], window, version["verdict"]]


@click.command()
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write it there."
)
def schema(out: Path | None) -> None:
    """Print the JSON Schema of the deployments file, for editors and other tools.

    It contains every setting with type, bounds and description. Rules that a schema cannot express (a query
    that binds its window, a path without secrets) are checked whenever the file is read.
    """
    text = json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n"
    if out is None:
        click.echo(text, nl=False)
    else:
        write_text(out, text)
        click.echo(f"wrote {out}")
