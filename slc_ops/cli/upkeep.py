"""``clean``, ``erase`` and ``metrics``: retention, erasure of users, and Prometheus metrics."""

from datetime import UTC, datetime
from pathlib import Path

import click

from slc_ops.base.addresses import without_secrets
from slc_ops.base.console import emit_json, json_option, print_table, progress, say
from slc_ops.base.extras import require
from slc_ops.base.text import count
from slc_ops.cli import options
from slc_ops.settings.environment import Installation


@click.command()
@options.deployment
@click.option("--dry-run", is_flag=True, help="Only list what would be removed, with its size.")
@json_option
def clean(deployment: str, dry_run: bool) -> None:
    """Remove windows and refreshes beyond keep_windows and keep_refreshes of the deployment.

    Files that the next refresh, a rollback or a running refresh needs are kept, as are the ledger and MLflow.
    Tables of users are kept only for the champion and for the target of a rollback.
    """
    require("slc-ops clean", "mlflow")
    from slc_ops.refresh.retention import removable, remove
    from slc_ops.refresh.user_tables import drop_user_tables

    found = removable(Installation.from_environment(), deployment)
    answer = found.as_dict()
    emptied: list[str] = []
    if not dry_run:
        with progress(f"cleaning {deployment}"):
            remove(found)
            emptied = drop_user_tables(Installation.from_environment(), deployment)
    emit_json({**answer, "user_tables": emptied, "removed": not dry_run})
    rows = [[kind, path] for kind in ("windows", "refreshes", "leftovers") for path in answer[kind]]
    if rows:
        title = f"{'Would go' if dry_run else 'Gone'} of {deployment}"
        print_table(title, ["what", "where"], rows)
    verb = "would give back" if dry_run else "gave back"
    said = f"{len(rows)} directories, {verb} {count(answer['bytes'])} bytes" if rows else "nothing to clean"
    say(said + (f"; no users in versions {', '.join(emptied)} any more" if emptied else ""))


@click.command()
@click.option(
    "--users",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="One id per line, or a Parquet, CSV or Feather file with a column of ids.",
)
@click.option("--column", default="user_id", metavar="NAME", help="That column.")
@options.actor
@json_option
def erase(file: Path, column: str, actor: str | None) -> None:
    """Erase users permanently from all stored data, and write a receipt to the ledger.

    Windows, quarantine, sums and pages lose their rows, and later extractions omit them; erase them at the
    source, too. The output names the versions that were fitted to their rows: refresh and promote to replace
    them.
    """
    require("slc-ops erase", "mlflow", "quality")
    from slc_ops.cli.registry import acting
    from slc_ops.intake.erased import read_users
    from slc_ops.refresh.erasure import erase as erase_users

    users = read_users(file, column)
    with progress(f"erasing {len(users)} users"):
        receipts = erase_users(Installation.from_environment(), users, actor=acting(actor))
    emit_json({"receipts": [receipt.as_dict() for receipt in receipts]})
    rows = []
    for receipt in receipts:
        details = receipt.details
        learned = ", ".join(str(number) for number in details["versions"]) or "none"
        if details["unknown_versions"]:
            learned += f"; not known of {', '.join(str(number) for number in details['unknown_versions'])}"
        gone = count(sum(details["rows"].values()))
        rows.append(
            [receipt.deployment, str(len(details["users"])), gone, str(len(details["rows"])), learned]
        )
    columns = ["deployment", "users", "rows", "windows", "versions fitted on their rows"]
    print_table("Erased", columns, rows)
    if not receipts:
        say("no deployment is known here, so nothing was erased; see SLC_OPS_HOME")


@click.command()
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write to FILE, for the node exporter's textfile collector.",
)
@click.option("--listen", is_flag=True, help="Answer GET /metrics until stopped.")
@click.option("--host", metavar="HOST", help="Interface. Default: SLC_OPS_METRICS_HOST, else 127.0.0.1.")
@click.option("--port", type=int, metavar="PORT", help="Port. Default: SLC_OPS_METRICS_PORT, else 9109.")
@json_option
def metrics(output: Path | None, listen: bool, host: str | None, port: int | None) -> None:
    """Show durations, rows, verdicts and champion ages in Prometheus' text format.

    With --listen, serve them to clients with the bearer token in SLC_OPS_METRICS_TOKEN.
    """
    from slc_ops.base.files import write_text
    from slc_ops.observability.metrics import collect, render

    installation = Installation.from_environment()
    if listen:
        require("slc-ops metrics --listen", "mlflow", "serve")
        from slc_ops.observability.server import application, listener
        from slc_ops.serving.running import run
        from slc_ops.settings.environment import MetricsVariables

        found = MetricsVariables.read()
        host, port = host or found.host, found.port if port is None else port
        token = found.token.get_secret_value()
        with listener(host, port, token) as socket:
            click.echo(f"metrics on http://{host}:{socket.getsockname()[1]}/metrics")
            run(application(installation, token), socket, seconds=1)
        return
    collected = collect(installation, datetime.now(UTC))
    (up,) = (metric for metric in collected if metric.name == "slc_ops_ledger_up")
    if not any(sample.value for sample in up.samples):
        shown = without_secrets(installation.ledger_url)
        click.echo(f"the ledger {shown} is not there or does not answer (slc_ops_ledger_up 0)", err=True)
    emit_json({"metrics": [metric.as_dict() for metric in collected]})
    if output is not None:
        write_text(output, render(collected), shared=True)  # the node exporter may run as another user
    else:
        say(render(collected).rstrip("\n"))
