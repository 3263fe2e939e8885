"""The TypeScript reader passes the conformance suite; its README's program runs."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from slc_ops import __version__
from tests.pages import ROOT

CLIENT = ROOT / "clients" / "typescript"
NPM = shutil.which("npm")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as installed and built by npm, outside the checkout."""
    if NPM is None:
        pytest.skip("no npm on this machine, which builds the reader (Debian: apt-get install nodejs npm)")
    directory = tmp_path_factory.mktemp("typescript") / "client"
    shutil.copytree(CLIENT, directory, ignore=shutil.ignore_patterns("node_modules", "dist"))
    for command in (["ci", "--ignore-scripts", "--no-audit", "--no-fund"], ["run", "build"]):
        done = subprocess.run([NPM, *command], cwd=directory, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return directory


@pytest.mark.services
def test_the_reader_passes_the_conformance_suite(built: Path) -> None:
    done = subprocess.run(
        ["node", "--test", "test/"], cwd=built, capture_output=True, text=True, check=False,
        env={**os.environ, "SLC_OPS_CONFORMANCE": str(ROOT / "conformance")},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
    passed = re.search(r"^# pass (\d+)", done.stdout, re.MULTILINE)
    assert passed is not None
    manifest = json.loads((ROOT / "conformance" / "manifest.json").read_text(encoding="utf-8"))
    assert int(passed[1]) > len(manifest["sets"])


@pytest.mark.services
@pytest.mark.parametrize("page", ["clients/typescript/README.md", "docs/serving.md"])
def test_the_programs_on_the_pages_run(page: str, built: Path) -> None:
    (program,) = re.findall(r"```ts\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    shutil.copytree(ROOT / "conformance" / "good" / "slc_eb", built / "champion", dirs_exist_ok=True)
    (built / "program.mts").write_text(program, encoding="utf-8")
    types = [
        "npx",
        "tsc",
        "--noEmit",
        "--strict",
        "--module",
        "NodeNext",
        "--target",
        "ES2022",
        "--skipLibCheck",
    ]
    for command in ([*types, "program.mts"], ["node", "program.mjs"]):
        (built / "program.mjs").write_text(program, encoding="utf-8")  # it has no type declarations
        done = subprocess.run(command, cwd=built, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert re.match(r"slc_eb 0\.\d+ (true|false)", done.stdout)


def test_the_package_has_our_version_and_a_lock_without_urls() -> None:
    package, lock = (
        json.loads((CLIENT / name).read_text()) for name in ("package.json", "package-lock.json")
    )
    assert package["version"] == lock["version"] == __version__
    assert not any("resolved" in each for each in lock["packages"].values())
    assert all("integrity" in each for name, each in lock["packages"].items() if name)
