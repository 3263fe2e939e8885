"""``demo``: from nothing to a promoted champion in one directory."""

from pathlib import Path

import click

from slc_ops.base.console import emit_json, json_option, progress, say
from slc_ops.base.extras import require


@click.command()
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("slc-demo"),
    show_default=True,
    help="An empty directory, or one of an earlier demo.",
)
@json_option
def demo(out: Path, json_path: str | None) -> None:
    """Run the whole refresh on simulated logs, without Airflow, in one directory.

    Twelve weeks of logs with a known bias per item are written; the newest week is validated, every method is
    compared on it, and the winner is registered and promoted.
    """
    require("slc-ops demo", "mlflow", "quality", "report")
    from slc_ops.demo.offline import run_demo
    from slc_ops.refresh.summary import print_refresh, refresh_summary

    home = out.absolute()
    with progress("running the demo"):
        places, plan = run_demo(home, lambda text: say(json_path, text))
    emit_json(json_path, refresh_summary(places, plan))
    if json_path != "-":
        print_refresh(places, plan)
    say(
        json_path,
        f"Next:    SLC_OPS_HOME={home} SLC_OPS_DEPLOYMENTS={places.deployments_file} slc-ops status",
    )
