"""A small deployment whose weeks tests may change."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from slc_ops.base.errors import ValidationStopped
from slc_ops.base.window import Window
from slc_ops.refresh import pipeline
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.environment import Installation
from tests.registry.factory import installation_in

DEFAULT = list(Deployment.model_fields["methods"].default)
"""The methods of a deployment that names none; :func:`configure` names fewer, which take less time."""
NEWEST = Window.parse("2026-02-16/2026-02-23")  # the seventh week
FIFTH, SIXTH = NEWEST.before(2)
ENTRY: dict[str, Any] = {
    "source": {"kind": "lake", "path": "lake/school"},
    "methods": ["platt_eb", "slc"],
    "link_windows": 3,
    "offset_windows": 3,
    "evidence_windows": 2,
    "gate": "auto",
    "decision": {"replicates": 200},
}


def open_school(home: Path, lake: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """An empty home with one deployment on a private copy of the lake."""
    shutil.copytree(lake, home / "lake" / "school")
    installation = use_home(home, monkeypatch)
    configure(installation)
    return installation


def operate(home: Path, lake: Path) -> Installation:
    """A home whose fifth and sixth week were refreshed without MLflow, reports and suite, as by a replay."""
    shutil.copytree(lake, home / "lake" / "school")
    installation = replace(installation_in(home), rehearsal=True)
    configure(installation)
    for window in (FIFTH, SIXTH):
        pipeline.refresh(installation, "school", window)
    return installation


def copy_of(installation: Installation, home: Path, others: str = "") -> Installation:
    """A copy of :func:`operate`'s home with ``others`` in its deployments file.

    Its plans name the rows of the original.
    """
    shutil.copytree(installation.home, home, dirs_exist_ok=True)
    found = replace(installation_in(home), rehearsal=True)
    found.deployments_file.write_text(found.deployments_file.read_text() + others)
    return found


def stop_newest(installation: Installation) -> None:
    """Let validation stop the seventh week: all labels are 1, and seven rows have no logit."""

    def broken(week: pa.Table) -> pa.Table:
        place = week.schema.get_field_index("logit")
        logit = [None] * 7 + week["logit"].to_pylist()[7:]
        return of_one_class(week).set_column(place, "logit", pa.array(logit, week.schema.field(place).type))

    change_week(installation, NEWEST, broken)
    pipeline.extract(installation, "school", NEWEST)
    with pytest.raises(ValidationStopped):
        pipeline.validate(installation, "school", NEWEST)


def use_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """Set the environment of an installation in ``home``."""
    monkeypatch.setenv("SLC_OPS_HOME", str(home))
    monkeypatch.setenv("SLC_OPS_DEPLOYMENTS", str(home / "deployments.yaml"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home}/mlflow.db")
    return Installation.from_environment()


def configure(installation: Installation, **changes: object) -> None:
    """Write the deployments file."""
    entries = {"deployments": {"school": {**ENTRY, **changes}}}
    installation.deployments_file.write_text(yaml.safe_dump(entries))


def change_week(installation: Installation, window: Window, change: Callable[[pa.Table], pa.Table]) -> None:
    """Rewrite one week of the lake."""
    (part,) = (installation.home / "lake" / "school" / f"week={window.key}").glob("*.parquet")
    pq.write_table(change(pq.read_table(part, partitioning=None)), part)


def of_one_class(week: pa.Table) -> pa.Table:
    """A week that validation stops: all labels are 1."""
    place = week.schema.get_field_index("label")
    return week.set_column(place, "label", pa.array([1] * week.num_rows, week.schema.field(place).type))
