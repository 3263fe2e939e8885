"""The installer gives a clear message if it cannot run."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.services  # each builds an environment

ROOT = Path(__file__).parent.parent


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the installer reads."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "install.sh", tmp_path / "scripts")
    for name in ("pyproject.toml", "requirements.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def install(checkout: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "UV"))}
    return subprocess.run(
        ["bash", "scripts/install.sh"],
        cwd=checkout, env=kept | {"UV": "", **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_without_a_suitable_python_it_names_suitable_ones(checkout: Path) -> None:
    result = install(checkout, PYTHON="/bin/false")
    assert result.returncode == 2
    assert "no Python 3.11, 3.12 or 3.13" in result.stderr
    assert "PYTHON=" in result.stderr
    assert not (checkout / ".venv").exists()


def test_without_a_package_index_it_says_so_and_leaves_no_marker(checkout: Path, tmp_path: Path) -> None:
    nothing = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PATH": _path_without_uv()}
    result = install(checkout, **nothing)
    assert result.returncode == 2
    assert "check that a package index can be reached" in result.stderr
    assert not (checkout / ".venv" / ".installed-from").exists()


def test_an_incomplete_environment_is_rebuilt(checkout: Path) -> None:
    (checkout / ".venv" / "bin").mkdir(parents=True)
    (checkout / ".venv" / "leftover").write_text("from an interrupted run")
    nothing = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PATH": _path_without_uv()}
    result = install(checkout, **nothing)
    assert "rebuilding it" in result.stdout
    assert not (checkout / ".venv" / "leftover").exists()


def test_a_second_install_does_nothing() -> None:
    result = subprocess.run(
        ["bash", "scripts/install.sh"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def _path_without_uv() -> str:
    return os.pathsep.join(p for p in os.environ["PATH"].split(os.pathsep) if not (Path(p) / "uv").exists())
