"""``refresh`` and ``report``: run a refresh and rewrite its report."""

from typing import Any

import click

from slc_ops.base.console import emit_json, json_option, progress, say
from slc_ops.base.errors import InputError
from slc_ops.base.extras import require
from slc_ops.cli import options
from slc_ops.settings.environment import Installation


@click.command()
@options.deployment
@click.option(
    "--window", "window_text", required=True, metavar="START/END",
    help="For example 2026-03-23/2026-03-30, days in the deployment's zone.",
)  # fmt: skip
@click.option(
    "--off-grid", is_flag=True, help="Accept a window outside the deployment's grid, or one that overlaps."
)
@click.option("--force", is_flag=True, help="Refresh a window whose labels are not due yet (label_lag).")
@json_option
def refresh(deployment: str, window_text: str, off_grid: bool, force: bool) -> None:
    """Run a complete refresh without Airflow: the same steps, the same version.

    Finished steps are not repeated. The verdict and the deployment's gate determine whether the new version
    becomes champion.
    """
    require("slc-ops refresh", "mlflow", "quality", "report")
    from datetime import UTC, datetime

    from slc_ops.refresh import pipeline
    from slc_ops.refresh.summary import print_refresh, refresh_summary
    from slc_ops.refresh.window_rules import check_labels_due

    installation = Installation.from_environment()
    settings = installation.deployment(deployment)
    window = settings.cadence.parse(window_text)
    if not force:
        check_labels_due(window, settings.label_lag, datetime.now(UTC), hint="--force")
    with progress(f"refreshing {deployment} for {window}"):
        outcome = pipeline.refresh(
            installation, deployment, window, off_grid=off_grid, tell=lambda text: say(f"  {text}")
        )
    emit_json(refresh_summary(installation, outcome))
    print_refresh(installation, outcome)


@click.command()
@click.option("--deployment", default=None, metavar="D", help="Needed with --window.")
@click.option(
    "--window", "window_text", default=None, metavar="START/END", help="The newest refresh of this window."
)
@click.option("--run", "run_id", default=None, metavar="ID", help="The refresh of this MLflow run.")
@json_option
def report(deployment: str | None, window_text: str | None, run_id: str | None) -> None:
    """Rewrite the HTML report of a finished refresh."""
    require("slc-ops report", "mlflow", "report")
    from slc_ops.refresh import pipeline

    installation = Installation.from_environment()
    plan = _find(installation, deployment, window_text, run_id)
    with progress("writing the report"):
        path = pipeline.write_report(plan)
    emit_json({"report": str(path)})
    say(f"Report: {path}")


def _find(
    installation: Installation, deployment: str | None, window_text: str | None, run_id: str | None
) -> Any:
    from slc_ops.refresh.versions import find_by_run, newest_refresh

    if (run_id is None) == (window_text is None):
        raise click.UsageError(
            "say which refresh: either --run ID, or --window START/END with --deployment D"
        )
    if run_id is not None:
        plan = find_by_run(installation, run_id)
        missing = f"no refresh under {installation.home / 'refreshes'} made run {run_id!r}"
    else:
        if deployment is None:
            raise click.UsageError("--window needs --deployment D")
        window = installation.deployment(deployment).cadence.parse(str(window_text))
        plan = newest_refresh(installation, deployment, window)
        missing = (
            f"deployment {deployment!r} has no decided refresh of {window_text} under "
            f"{installation.refreshes(deployment)}; run 'slc-ops refresh' first, or set SLC_OPS_HOME"
        )
    if plan is None:
        raise InputError(missing)
    return plan
