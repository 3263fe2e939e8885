"""``metrics``: what Prometheus and operators want to know."""

from datetime import UTC, datetime
from pathlib import Path

import click

from slc_ops.base.addresses import without_secrets
from slc_ops.base.console import emit_json, json_option
from slc_ops.settings.deployments import Places


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
def metrics(
    output: Path | None, listen: bool, host: str | None, port: int | None, json_path: str | None
) -> None:
    """Show durations, rows, verdicts and champion ages in Prometheus' text format.

    With --listen it serves them to whoever sends the bearer token in SLC_OPS_METRICS_TOKEN.
    """
    from slc_ops.base.files import write_text
    from slc_ops.observability.metrics import collect, render

    places = Places.from_environment()
    if listen:
        from slc_ops.observability.server import MetricsServer
        from slc_ops.settings.environment import MetricsVariables

        found = MetricsVariables.read()
        host, port = host or found.host, found.port if port is None else port
        server = MetricsServer(places, host, port, found.token.get_secret_value())
        click.echo(f"metrics on http://{host}:{server.port}/metrics")
        server.serve_forever()
        return
    collected = collect(places, datetime.now(UTC))
    (up,) = (metric for metric in collected if metric.name == "slc_ops_ledger_up")
    if not any(sample.value for sample in up.samples):
        shown = without_secrets(places.ledger_url)
        click.echo(f"the ledger {shown} is not there or does not answer (slc_ops_ledger_up 0)", err=True)
    emit_json(json_path, {"metrics": [metric.as_dict() for metric in collected]})
    if output is not None:
        write_text(output, render(collected), shared=True)  # another user's node exporter reads it
    elif json_path != "-":
        click.echo(render(collected), nl=False)
