"""``docs/adopting.md``, command by command, in a throwaway Airflow with the wheel installed.

The environment borrows the libraries of this one and has slc_ops from the wheel, not from the checkout.
"""

import re
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.release.environments import ROOT, build, clean_environment, install, make_environment

pytestmark = pytest.mark.services
PAGE = ROOT / "docs" / "adopting.md"


def steps() -> Iterator[tuple[str, list[str]]]:
    """The commands of the page's terminal sessions, each with the lines it must answer."""
    for block in re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            first, *lines = step.splitlines()
            command = [first, *(line[2:] for line in lines if line.startswith("> "))]
            yield "\n".join(command), [line for line in lines if not line.startswith("> ")]


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An Airflow of somebody: its home is the working directory; answers it, with ``bin`` beside."""
    directory = tmp_path_factory.mktemp("adopting")
    build(directory / "dist")
    (wheel,) = (directory / "dist").glob("*.whl")
    python = make_environment(directory / "venv")
    (packages,) = (directory / "venv" / "lib").glob("python*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install(python, "--no-deps", wheel)
    script = python.parent / "airflow"
    script.write_text(f'#!/bin/sh\nexec {python} -m airflow "$@"\n')
    script.chmod(0o755)
    (directory / "home" / "dags").mkdir(parents=True)
    return directory / "home"


def shell(home: Path, text: str) -> str:
    """What a shell answers to these lines; it fails where one of them does."""
    variables = clean_environment() | {
        "PATH": f"{home.parent / 'venv' / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "COLUMNS": "200",
        "DO_NOT_TRACK": "true",
        "GX_ANALYTICS_ENABLED": "false",
    }
    done = subprocess.run(
        ["bash", "-ec", text], cwd=home, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{text}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def test_every_command_of_the_page_answers_what_the_page_says(airflow: Path) -> None:
    where = shell(airflow, "python -c 'import slc_ops; print(slc_ops.__file__)'")
    assert where.startswith(str(airflow.parent / "venv"))
    shell(airflow, "airflow db migrate")
    said = set()
    kept = ":"
    for command, expected in steps():
        if command.startswith("pip install"):
            continue  # done above, from the wheel
        answer = shell(airflow, f"{kept}\n{command}")
        if command.startswith("export"):
            kept = command
        for line in expected:
            pattern = ".*".join(re.escape(part) for part in line.split("…"))
            assert re.search(f"^{pattern}$", answer, re.MULTILINE), f"{command}: {line!r} not in\n{answer}"
        said.add(command.split("\n")[0])
    assert {"airflow providers list --output plain", "slc-ops status"} <= said
    assert list((airflow / "slc").glob("refreshes/school/*/*/report/report.html"))
