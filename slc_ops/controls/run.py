"""A complete control, in the three steps of its DAG."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from slc_ops.base.errors import SettingsError
from slc_ops.base.files import write_json
from slc_ops.base.mlflow_client import connect
from slc_ops.controls import flight_delay, movielens
from slc_ops.controls.arms import Arm, Request, control_installation, declared, evaluate_arm
from slc_ops.controls.verdict import Clusters, ControlVerdict, by_day, by_user, check_arms, observe
from slc_ops.evidence.replayed import Replay
from slc_ops.refresh import pipeline
from slc_ops.refresh.plan import Plan
from slc_ops.registry.tracking import experiment, typed
from slc_ops.reporting.replay import write_replay
from slc_ops.settings.environment import Installation

EXPERIMENT = "slc-controls"
VERDICT = "verdict.json"  # of the complete control, in its home
Tell = Callable[[str], None]
Prepare = Callable[[Installation, Request, Tell], list[Arm]]

CONTROLS: dict[str, tuple[Prepare, Clusters]] = {
    flight_delay.NAME: (flight_delay.prepare, by_day),
    movielens.NAME: (movielens.prepare, by_user),
}


def prepare(installation: Installation, control: str, request: Request, tell: Tell) -> list[Arm]:
    """Prepare data, backbones and lakes; return the arms."""
    prepare_arms, _ = _known(control)
    return prepare_arms(control_installation(installation, control), request, tell)


def finish(
    installation: Installation, control: str, plans: dict[str, Plan], data: Path | None, tell: Tell
) -> ControlVerdict:
    """Collect and check the results, write the first arm's report, record the run in MLflow."""
    _, clusters = _known(control)
    home = control_installation(installation, control)
    arms = declared(home)
    missing = [arm.name for arm in arms if arm.name not in plans]
    if missing:
        raise SettingsError(f"the arms {', '.join(missing)} of {control} have not been evaluated")
    tell("observe and check")
    seen = {arm.name: observe(plans[arm.name], clusters) for arm in arms}
    tell("report")
    report = pipeline.write_report(plans[arms[0].name])
    replays: dict[str, Replay] = {}
    if data is None and control == flight_delay.NAME:  # other controls have no weeks
        replays = flight_delay.replay_year(home, arms, tell)
    for name, replay in replays.items():
        write_replay(report.parent / name / "replay.html", replay)
    verdict = ControlVerdict(
        control=control,
        data="embedded" if data is None else str(data),
        checks=check_arms(arms, seen)
        + [each for name in replays for each in flight_delay.check_year(name, replays[name])],
        arms=[arm.as_dict() | asdict(seen[arm.name]) for arm in arms],
        replays={name: replay.as_dict() for name, replay in replays.items()},
        report=str(report),
    )
    verdict = replace(verdict, run_id=record(installation, verdict, report.parent))
    write_json(home.home / VERDICT, verdict.as_dict())
    return verdict


def run(installation: Installation, control: str, request: Request, tell: Tell) -> ControlVerdict:
    """Run all steps, as the DAG does."""
    arms = prepare(installation, control, request, tell)
    home = control_installation(installation, control)
    plans = {arm.name: evaluate_arm(home, arm, tell) for arm in arms}
    return finish(installation, control, plans, request.data, tell)


def _known(control: str) -> tuple[Prepare, Clusters]:
    if control not in CONTROLS:
        raise SettingsError(f"no control {control!r}; there are {', '.join(CONTROLS)}")
    return CONTROLS[control]


def record(installation: Installation, verdict: ControlVerdict, report: Path) -> str:
    """Write an MLflow run with tags, metrics per arm and artifacts, but without a model; return its id."""
    with typed(installation.tracking_uri):
        client = connect(installation.tracking_uri, create=True)
        run = client.create_run(
            experiment(client, installation, EXPERIMENT),
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
