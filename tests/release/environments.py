"""Wheels of this checkout, and virtual environments with them."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
UV = shutil.which("uv")
PLAIN_AIRFLOW = Path(__file__).with_name("plain-airflow.txt")
"""The packages that Airflow alone installs: the versions of a plain Airflow (written by ``make lock``)."""


def build(out: Path, source: Path = ROOT) -> None:
    """Wheel and sdist, as ``make dist`` builds them."""
    variables = os.environ | {"SOURCE_DATE_EPOCH": "1767225600"}
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
    subprocess.run(command, cwd=source, env=variables, check=True, capture_output=True)


def clean_environment() -> dict[str, str]:
    """The variables of this process without those of other installations."""
    ours = ("AIRFLOW", "MLFLOW_", "SLC_OPS_", "PYTHON", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def make_environment(directory: Path) -> Path:
    """An empty virtual environment; returns its interpreter."""
    if UV:
        command = [UV, "venv", "--quiet", "--python", sys.executable, str(directory)]
    else:
        command = [sys.executable, "-m", "venv", str(directory)]
    subprocess.run(command, env=clean_environment(), check=True)
    return directory / "bin" / "python"


def locked(without: Iterable[str] = ()) -> list[str]:
    """The versions of requirements.txt, ``without`` some packages."""
    lock = (ROOT / "requirements.txt").read_text()
    pins = re.findall(r"^(([\w.-]+).*==.*?)\s*\\?$", lock, re.MULTILINE)
    return [pin for pin, name in pins if name not in set(without)]


def install(python: Path, *arguments: str | Path, pins: list[str] | None = None) -> None:
    """Install by name from the package index, in the versions of the lock unless ``pins`` has others."""
    if UV:
        command = [UV, "pip", "install", "--python", str(python)]
    else:
        command = [str(python), "-m", "pip", "install", "--no-compile", "--disable-pip-version-check"]
    constraints = python.parent.parent / "versions.txt"
    constraints.write_text("\n".join(locked() if pins is None else pins))
    command += ["--constraint", str(constraints), *map(str, arguments)]
    variables = clean_environment() | {"UV_PYTHON_DOWNLOADS": "never"}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def versions(python: Path) -> dict[str, str]:
    """Package → version, as installed."""
    script = (
        "import importlib.metadata as m, re\n"
        "for d in m.distributions(): print(re.sub('[-_.]+', '-', d.name).lower(), d.version)"
    )
    found = subprocess.run(
        [str(python), "-c", script], env=clean_environment(), capture_output=True, text=True, check=True
    )
    return dict(line.split() for line in found.stdout.splitlines())


def optional(extra: str) -> set[str]:
    """An extra of pyproject.toml with the extras it includes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = {extra}
    for line in project["optional-dependencies"][extra]:
        for names in re.findall(r"^slc-ops\[(.*)\]", line):
            found |= {each for name in names.split(",") for each in optional(name)}
    return found


def installed_megabytes(python: Path) -> float:
    """The installed size, without bytecode and the installer."""
    (packages,) = (python.parent.parent / "lib").glob("python*/site-packages")
    left_out = {"__pycache__", "pip", "setuptools"}
    files = [
        path
        for path in packages.rglob("*")
        if path.is_file() and not left_out & set(path.relative_to(packages).parts)
    ]
    return sum(path.stat().st_size for path in files) / 1e6
