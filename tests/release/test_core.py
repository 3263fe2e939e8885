"""``pip install slc-ops``: a fresh environment from the wheel can fit, compare, apply and serve."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from slc_ops import __version__
from slc_ops.serving import Corrector
from tests.methods.synthetic import table
from tests.pages import commands, to_run
from tests.release.environments import (
    ROOT,
    UV,
    clean_environment,
    install,
    installed_megabytes,
    make_environment,
)

pytestmark = pytest.mark.services
ABSENT = ("airflow", "mlflow", "pandas", "great_expectations", "scipy", "sklearn", "matplotlib", "sqlalchemy")
HERE = Path(sys.executable).parent


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Calibration and test rows."""
    directory = tmp_path_factory.mktemp("files")
    pq.write_table(table(), directory / "calibration.parquet")
    pq.write_table(table(), directory / "test.parquet")
    return directory


def run(bin: Path, cwd: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [str(bin / "slc-ops"), *arguments]
    return subprocess.run(
        command, cwd=cwd, env=clean_environment(), capture_output=True, text=True, check=False
    )


def compared(bin: Path, cwd: Path) -> dict[str, Any]:
    done = run(bin, cwd, "compare", "--calibration", "calibration.parquet", "--test", "test.parquet",
               "--json", "-")  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    for method in answer["methods"].values():
        del method["seconds_fit"]
        method.pop("against_platt", None)  # differences with intervals need the extra `report`
    return answer


def test_the_core_is_small_and_has_no_package_of_the_extras(core: Path) -> None:
    script = "import importlib.util, sys; print([n for n in sys.argv[1:] if importlib.util.find_spec(n)])"
    done = subprocess.run(
        [str(core / "python"), "-c", script, *ABSENT], cwd=core, env=clean_environment(),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "[]"
    assert installed_megabytes(core / "python") <= 330


def test_it_compares_like_the_full_installation(core: Path, files: Path) -> None:
    assert compared(core, files) == compared(HERE, files)


def test_its_comparison_names_the_package_for_intervals(core: Path, files: Path) -> None:
    script = (
        "import pyarrow.parquet as pq, slc_ops\n"
        "found = slc_ops.compare(pq.read_table('calibration.parquet'), pq.read_table('test.parquet'))\n"
        "print(found)\n"
        "try:\n    found.plot()\nexcept slc_ops.base.errors.SlcError as error:\n    print(error)"
    )
    done = subprocess.run(
        [str(core / "python"), "-W", "ignore", "-c", script], cwd=files, env=clean_environment(),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    shown, said = done.stdout.rsplit("\n", 2)[0], done.stdout.splitlines()[-1]
    assert shown.count("pip install 'slc-ops[report]'") == 1
    assert "intervals need more" in shown
    assert said.endswith("run: pip install 'slc-ops[report]'")


def test_it_fits_and_applies_like_the_full_installation(core: Path, files: Path) -> None:
    for bin, name in ((core, "core"), (HERE, "whole")):
        for arguments in (
            ("fit", "--input", "calibration.parquet", "--method", "slc_eb", "--out", name),
            ("apply", "--params", name, "--input", "test.parquet", "--output", f"{name}.parquet"),
        ):
            done = run(bin, files, *arguments)
            assert done.returncode == 0, done.stderr
    assert pq.read_table(files / "core.parquet").equals(pq.read_table(files / "whole.parquet"))


def test_its_corrector_serves_the_same_probabilities(core: Path, files: Path) -> None:
    run(HERE, files, "fit", "--input", "calibration.parquet", "--method", "slc", "--out", "served")
    item = pq.read_table(files / "test.parquet").column("item_id")[0].as_py()
    script = (
        "import json, sys\n"
        "from slc_ops.serving import Corrector\n"
        "corrector = Corrector.from_directory('served')\n"
        "items = [json.loads(sys.argv[1])] * 3\n"
        "print(json.dumps([float(p) for p in corrector.correct(items, [-1.0, 0.0, 2.0])]))"
    )
    done = subprocess.run(
        [str(core / "python"), "-c", script, json.dumps(item)], cwd=files, env=clean_environment(),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    expected = Corrector.from_directory(files / "served").correct([item] * 3, [-1.0, 0.0, 2.0])
    assert json.loads(done.stdout) == [float(p) for p in np.asarray(expected)]


@pytest.mark.parametrize(
    ("arguments", "extras"),
    [
        ("refresh --deployment demo --window 2026-03-23/2026-03-30", "mlflow,quality,report"),
        ("demo", "mlflow,quality,report"),
        ("backtest --lake . --deployment demo", "mlflow,quality,report"),
        ("paper --calibration calibration.parquet --test test.parquet --out paper", "report"),
        ("study test.parquet --out study", "report,study"),
        ("report --run 1", "mlflow,report"),
        ("control flight-delay", "controls,mlflow,quality,report,sklearn"),
        ("status", "mlflow"),
        ("history --deployment demo", "mlflow"),
        ("verify", "mlflow"),
        ("metrics", "mlflow"),
        ("apply --params models:/slc-demo@champion --input test.parquet --output out.parquet", "mlflow"),
    ],
)
def test_a_command_that_needs_an_extra_names_it_in_one_line(
    core: Path, files: Path, arguments: str, extras: str
) -> None:
    before = sorted(files.iterdir())
    done = run(core, files, *arguments.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith(f"run: pip install 'slc-ops[{extras}]'\n")
    assert sorted(files.iterdir()) == before


def test_the_first_page_names_the_wheel_and_the_ways_to_install_it(wheel: Path) -> None:
    """The tests of the extras install ``all``; the tests below install the core."""
    first, *_ = to_run("docs/index.md", "console")
    dist, *others = [step.text for step in commands(first)]
    assert dist == "make dist"
    assert [each.split()[0] for each in others] == ["pip", "uvx"]
    assert all(f"dist/{wheel.name}[all]" in each for each in others)


@pytest.mark.skipif(UV is None, reason="uvx comes with uv")
def test_uvx_runs_the_wheel_without_an_installation(wheel: Path, tmp_path: Path) -> None:
    command = [str(UV), "tool", "run", "--python", sys.executable, "--from", str(wheel), "slc-ops"]
    done = subprocess.run(
        [*command, "--version"], cwd=tmp_path, env=clean_environment(),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert __version__ in done.stdout


def test_a_clone_can_be_installed(tmp_path: Path) -> None:
    python = make_environment(tmp_path / "venv")
    install(python, ROOT)
    assert __version__ in run(python.parent, tmp_path, "--version").stdout
