"""A small deployment whose weeks tests may change."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from slc_ops.base.window import Window
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.environment import Installation

DEFAULT = list(Deployment.model_fields["methods"].default)
"""The methods of a deployment that names none; :func:`configure` names fewer, which take less time."""
NEWEST = Window.parse("2026-02-16/2026-02-23")  # the seventh week


def open_school(home: Path, lake: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """An empty home with one deployment on a private copy of the lake."""
    shutil.copytree(lake, home / "lake" / "school")
    installation = use_home(home, monkeypatch)
    configure(installation)
    return installation


def use_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """Set the environment of an installation in ``home``."""
    monkeypatch.setenv("SLC_OPS_HOME", str(home))
    monkeypatch.setenv("SLC_OPS_DEPLOYMENTS", str(home / "deployments.yaml"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home}/mlflow.db")
    return Installation.from_environment()


def configure(installation: Installation, **changes: object) -> None:
    """Write the deployments file."""
    entry = {
        "source": {"kind": "lake", "path": "lake/school"},
        "methods": ["platt_eb", "slc"],
        "link_windows": 3,
        "offset_windows": 3,
        "evidence_windows": 2,
        "gate": "auto",
        "decision": {"replicates": 200},
        **changes,
    }
    installation.deployments_file.write_text(yaml.safe_dump({"deployments": {"school": entry}}))


def change_week(installation: Installation, window: Window, change: Callable[[pa.Table], pa.Table]) -> None:
    """Rewrite one week of the lake."""
    (part,) = (installation.home / "lake" / "school" / f"week={window.key}").glob("*.parquet")
    pq.write_table(change(pq.read_table(part, partitioning=None)), part)


def of_one_class(week: pa.Table) -> pa.Table:
    """A week that validation stops: all labels are 1."""
    place = week.schema.get_field_index("label")
    return week.set_column(place, "label", pa.array([1] * week.num_rows, week.schema.field(place).type))
