"""A home for controls, and a small ratings file in GroupLens' format."""

from pathlib import Path

import numpy as np
import pytest

from slc_ops.settings.environment import Installation


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def installation(home: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    monkeypatch.setenv("SLC_OPS_HOME", str(home))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home}/mlflow.db")
    return Installation.from_environment()


@pytest.fixture(scope="session")
def ratings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """800 simulated users with 45 to 75 ratings of 80 films each; users and films differ."""
    rng = np.random.default_rng(0)
    kind, fame = rng.normal(0, 0.6, 800), rng.normal(0, 1.2, 80)
    folder = tmp_path_factory.mktemp("ml-100k")
    with (folder / "u.data").open("w") as stream:
        for user in range(800):
            for time, item in enumerate(rng.permutation(80)[: rng.integers(45, 76)]):
                liked = rng.random() < 1 / (1 + np.exp(-(kind[user] + fame[item])))
                stream.write(f"{user + 1}\t{item + 1}\t{5 if liked else 2}\t{time}\n")
    return folder
