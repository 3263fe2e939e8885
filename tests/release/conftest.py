"""One wheel, and one environment of each kind, for all tests of the release."""

from pathlib import Path

import pytest

from tests.release.environments import PLAIN_AIRFLOW, build, install, locked, make_environment, versions


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    build(out)
    (wheel,) = out.glob("*.whl")
    return wheel


@pytest.fixture(scope="session")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` directory of an environment with the core only."""
    python = make_environment(tmp_path_factory.mktemp("core") / "venv")
    install(python, wheel)
    return python.parent


class PlainAirflow:
    """A user's Airflow, then with MLflow, then with slc-ops."""

    def __init__(self, directory: Path, wheel: Path) -> None:
        self.python = make_environment(directory / "venv")
        install(self.python, "--no-deps", "--requirement", PLAIN_AIRFLOW, pins=[])
        self.alone = versions(self.python)
        pins = locked(without=self.alone)
        install(self.python, "mlflow", pins=pins)
        self.with_mlflow = versions(self.python)
        install(self.python, f"slc-ops[airflow] @ {wheel.as_uri()}", pins=pins)
        self.with_us = versions(self.python)


@pytest.fixture(scope="session")
def plain_airflow(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> PlainAirflow:
    return PlainAirflow(tmp_path_factory.mktemp("plain"), wheel)
