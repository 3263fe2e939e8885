"""Four valid weeks of a small simulated lake, the first three extracted and evaluated."""

import shutil
from pathlib import Path

import pytest

from slc_ops.demo.simulate import simulate
from slc_ops.intake.extract import extract
from slc_ops.quality.verdict import Baseline, validate
from slc_ops.settings.environment import Installation
from tests.quality.lake_bench import DEPLOYMENT, NEWEST, ROWS, WEEKS, Bench


@pytest.fixture(scope="session")
def good_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The initial state of every test."""
    home = tmp_path_factory.mktemp("good") / "home"
    simulate(home / "lake" / "demo", weeks=WEEKS, rows_per_week=ROWS, users=200, items=40, new_items=1)
    known = []
    for window in NEWEST.before(WEEKS - 1):
        manifest = extract(DEPLOYMENT, window, home / "windows" / "demo", home=home)
        validate(manifest, Baseline(known), DEPLOYMENT.quality)
        known.append(manifest)
    return home


@pytest.fixture
def bench(tmp_path: Path, good_home: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A private home for the test."""
    home = tmp_path / "home"
    shutil.copytree(good_home, home)
    monkeypatch.setenv("SLC_OPS_HOME", str(home))
    monkeypatch.setenv("SLC_OPS_DEPLOYMENTS", str(home / "deployments.yaml"))
    for name in ("MLFLOW_TRACKING_URI", "SLC_OPS_LEDGER_URL", "SLC_OPS_ARTIFACT_ROOT"):
        monkeypatch.delenv(name, raising=False)
    return Bench(Installation.from_environment(), home / "lake" / "demo" / f"week={NEWEST.key}", DEPLOYMENT)
