"""A metadata database for ``dag.test()``, and a home with one small deployment."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from slc_ops.base.window import Window
from slc_ops.demo.simulate import simulate
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.environment import Installation

NEWEST = Window.parse("2026-02-16/2026-02-23")  # the seventh week
AFTER = "2026-02-23T00:00:01+00:00"  # a run by hand, a second after the seventh week ended

ENTRY: dict[str, Any] = {
    "source": {"kind": "lake", "path": "lake/school"},
    "methods": ["platt_eb", "slc"],
    "link_windows": 3,
    "offset_windows": 3,
    "evidence_windows": 2,
    "gate": "auto",
    "start": "2026-01-05",
    "end": "2026-02-23",
    "decision": {"replicates": 200},
}


@pytest.fixture(scope="session")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven weeks of a small platform."""
    out = tmp_path_factory.mktemp("lake")
    simulate(out, weeks=7, users=300, items=60, seed=11, start="2026-01-05")
    return out


@pytest.fixture
def installation(tmp_path: Path, lake: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """An empty home with the deployment ``school`` on a private copy of the lake."""
    return furnish(tmp_path, lake, monkeypatch)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, lake: Path) -> Iterator[Installation]:
    """The same, for all tests of a file: repeating a finished refresh costs nothing."""
    with pytest.MonkeyPatch.context() as patch:
        yield furnish(tmp_path_factory.mktemp("home"), lake, patch)


def furnish(home: Path, lake: Path, patch: pytest.MonkeyPatch) -> Installation:
    """Put a lake and a deployments file into a home and set the environment."""
    shutil.copytree(lake, home / "lake" / "school")
    patch.setenv("SLC_OPS_HOME", str(home))
    patch.setenv("SLC_OPS_DEPLOYMENTS", str(home / "deployments.yaml"))
    patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home}/mlflow.db")
    configure(home)
    return Installation.from_environment()


def configure(home: Path, **settings: Any) -> Deployment:
    """Write the deployment ``school`` with these settings, and read it back."""
    (home / "deployments.yaml").write_text(yaml.safe_dump({"deployments": {"school": {**ENTRY, **settings}}}))
    return Installation.from_environment().deployment("school")
