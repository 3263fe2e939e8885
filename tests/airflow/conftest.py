"""A home with one small deployment, in the environment of ``dag.test()``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slc_ops.settings.deployments import Deployment
from slc_ops.settings.environment import Installation
from tests.refresh import school

AFTER = "2026-02-23T00:00:01+00:00"  # a run by hand, a second after the seventh week ended
BOUNDS = {"start": "2026-01-05", "end": "2026-02-23"}
ENTRY: dict[str, Any] = {**school.ENTRY, **BOUNDS}


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
    installation = school.open_school(home, lake, patch)
    configure()
    return installation


def configure(**settings: Any) -> Deployment:
    """Write the deployment ``school`` with these settings, and read it back."""
    installation = Installation.from_environment()
    school.configure(installation, **(BOUNDS | settings))
    return installation.deployment("school")
