"""The run of a control in MLflow: figures and the report, but no model. Nothing can be served from it."""

from pathlib import Path

from slc_ops.base.mlflow_client import connect
from slc_ops.controls.verdict import ControlVerdict
from slc_ops.registry.tracking import experiment, typed
from slc_ops.settings.deployments import Places

EXPERIMENT = "slc-controls"


def record(places: Places, verdict: ControlVerdict, report: Path) -> str:
    """Write a run with tags, metrics per arm and artifacts; returns its id."""
    with typed(places.tracking_uri):
        client = connect(places.tracking_uri, create=True)
        run = client.create_run(
            experiment(client, places, EXPERIMENT),
            run_name=f"control {verdict.control}",
            tags={
                "control": verdict.control,
                "data": verdict.data,
                "passed": str(verdict.passed).lower(),
                "sentence": verdict.sentence,
            },
        )
        run_id = str(run.info.run_id)
        for name, value in _metrics(verdict).items():
            client.log_metric(run_id, name, value)
        client.log_dict(run_id, verdict.as_dict(), "control.json")
        client.log_artifacts(run_id, str(report), "report")
        client.set_terminated(run_id, "FINISHED")
    return run_id


def _metrics(verdict: ControlVerdict) -> dict[str, float]:
    figures = {"passed": float(verdict.passed)}
    for arm in verdict.arms:
        for method, gain in arm["gains"].items():
            for part in ("estimate", "low", "high"):
                if gain[part] is not None:
                    figures[f"{arm['name']}.{method}.auc_gain.{part}"] = gain[part]
    return figures
