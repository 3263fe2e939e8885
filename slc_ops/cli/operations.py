"""``metrics``: what Prometheus and operators want to know."""

from datetime import UTC, datetime
from pathlib import Path

import click

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
@click.option("--host", default="127.0.0.1", envvar="SLC_OPS_METRICS_HOST", show_default=True)
@click.option("--port", default=9109, envvar="SLC_OPS_METRICS_PORT", show_default=True)
@click.option("--token", default="", envvar="SLC_OPS_METRICS_TOKEN", hidden=True)
@json_option
def metrics(
    output: Path | None, listen: bool, host: str, port: int, token: str, json_path: str | None
) -> None:
    """Show durations, rows, verdicts and champion ages in Prometheus' text format.

    With --listen it serves them to whoever sends the bearer token in SLC_OPS_METRICS_TOKEN.
    """
    from slc_ops.base.files import write_text
    from slc_ops.observability.exposition import render
    from slc_ops.observability.metrics import collect

    places = Places.from_environment()
    if listen:
        from slc_ops.observability.server import MetricsServer

        with MetricsServer(places, host, port, token) as server:
            click.echo(f"metrics on http://{host}:{server.server_port}/metrics")
            server.serve_forever()
        return
    found = collect(places, datetime.now(UTC))
    emit_json(json_path, {"metrics": [metric.as_dict() for metric in found]})
    if output is not None:
        write_text(output, render(found))
    elif json_path != "-":
        click.echo(render(found), nl=False)
