"""The files that ``make dist`` builds."""

import hashlib
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from scripts.sbom import sbom
from slc_ops import __version__
from tests.release.environments import ROOT, build

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    build(out)
    return out


def digests(directory: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.iterdir()}


def test_two_builds_give_the_same_bytes(dist: Path, tmp_path: Path) -> None:
    """The second build uses a copy in another directory with other times and permissions."""
    copy = tmp_path / "copy"
    left_out = shutil.ignore_patterns(
        ".git", ".venv*", "var", "dist", "__pycache__", ".*_cache", ".hypothesis"
    )
    shutil.copytree(ROOT, copy, ignore=left_out, copy_function=shutil.copyfile)
    for path in copy.rglob("*.py"):
        path.chmod(0o600)
    shutil.copymode(ROOT / "scripts" / "install.sh", copy / "scripts" / "install.sh")
    build(tmp_path / "dist", copy)
    assert (
        digests(tmp_path / "dist")[f"slc_ops-{__version__}-py3-none-any.whl"]
        == (digests(dist)[f"slc_ops-{__version__}-py3-none-any.whl"])
    )
    build(tmp_path / "again")
    assert digests(tmp_path / "again") == digests(dist)


def test_twine_accepts_the_metadata(dist: Path) -> None:
    files = [str(path) for path in dist.iterdir()]
    checked = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *files],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout
    assert checked.stdout.count("PASSED") == 2


def test_the_wheel_contains_exactly_the_files_read_at_run_time(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    data = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "slc_ops").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if not name.startswith("slc_ops-")} == data
    assert "slc_ops/demo/deployments.yaml" in names


def test_the_version_has_an_entry_in_the_changelog() -> None:
    assert f"\n## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_sbom_names_every_package_of_the_lock_with_its_version_and_hashes() -> None:
    lock = (ROOT / "requirements.txt").read_text()
    found = sbom(lock)["components"]
    pins = re.findall(r"^([\w.-]+)\S*==(\S+)", lock, re.MULTILINE)
    assert [(each["name"], each["version"]) for each in found] == pins
    listed = [part["content"] for each in found for part in each["externalReferences"][0]["hashes"]]
    assert listed == re.findall(r"sha256:(\w+)", lock)
