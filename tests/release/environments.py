"""Wheels of this checkout, and virtual environments made from them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
UV = shutil.which("uv")


def build(out: Path, source: Path = ROOT) -> None:
    """Wheel and sdist, as ``make dist`` builds them."""
    variables = os.environ | {"SOURCE_DATE_EPOCH": "1767225600"}
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
    subprocess.run(command, cwd=source, env=variables, check=True, capture_output=True)


def clean_environment() -> dict[str, str]:
    """The variables of this process without those that lead to other installations."""
    ours = ("AIRFLOW", "MLFLOW_", "SLC_OPS_", "PYTHON", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def make_environment(directory: Path) -> Path:
    """An empty virtual environment; answers its interpreter."""
    if UV:
        command = [UV, "venv", "--quiet", "--python", sys.executable, str(directory)]
    else:
        command = [sys.executable, "-m", "venv", str(directory)]
    subprocess.run(command, env=clean_environment(), check=True)
    return directory / "bin" / "python"


def install(python: Path, *arguments: str | Path) -> None:
    """Install by name from the package index, in the versions of the lock."""
    pins = python.parent.parent / "versions.txt"
    lock = (ROOT / "requirements.txt").read_text()
    pins.write_text("\n".join(re.findall(r"^(\S+==.*?)\s*\\\\?$", lock, re.MULTILINE)))
    if UV:
        command = [UV, "pip", "install", "--quiet", "--python", str(python)]
        variables = {"UV_LINK_MODE": "copy", "UV_PYTHON_DOWNLOADS": "never"}
    else:
        command = [str(python), "-m", "pip", "install", "--quiet", "--no-compile"]
        variables = {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    command += ["--constraint", str(pins), *map(str, arguments)]
    subprocess.run(command, env=clean_environment() | variables, check=True)


def installed_megabytes(python: Path) -> float:
    """What was installed, without bytecode and without the installer itself."""
    (packages,) = (python.parent.parent / "lib").glob("python*/site-packages")
    left_out = {"__pycache__", "pip", "setuptools"}
    files = [
        path
        for path in packages.rglob("*")
        if path.is_file() and not left_out & set(path.relative_to(packages).parts)
    ]
    return sum(path.stat().st_size for path in files) / 1e6
