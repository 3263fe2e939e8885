"""The targets of the Makefile select tests by markers, defined in one place."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text()
INSTALLATIONS = ("tests.airflow.platform", "tests.production.installation import", "mlflow_server")


def expression(target: str) -> str:
    """The marker expression of a target's pytest line."""
    recipe = MAKEFILE.split(f"\n{target}: install")[1].split("\n\n")[0]
    (found,) = re.findall(r'(?:-m pytest|PYTEST\)) (?:-p \S+ )?-m "?([a-z ]+)"?$', recipe, re.MULTILINE)
    return found


def test_every_test_is_in_exactly_one_of_test_and_long() -> None:
    assert expression("long") == "services"
    assert expression("test") == "not services and not chaos"
    assert expression("tests") == "not chaos"
    assert expression("quick") == "not slow and not services and not chaos"


def test_faults_are_the_chaos_runs_and_the_fault_tests_of_the_other_targets() -> None:
    assert expression("faults") == "faults"
    for path in (ROOT / "tests" / "faults").glob("test_*.py"):
        assert "pytestmark = pytest.mark.chaos" in path.read_text(), path.name


def test_the_makefile_names_no_test_file() -> None:
    assert re.findall(r"tests/\S+\.py", MAKEFILE) == []


@pytest.mark.parametrize(
    "path",
    sorted(
        path
        for path in (ROOT / "tests").rglob("test_*.py")
        if path != Path(__file__) and any(word in path.read_text() for word in INSTALLATIONS)
    ),
    ids=lambda path: path.stem,
)
def test_a_module_that_starts_an_installation_has_the_marker(path: Path) -> None:
    assert re.search(r"^pytestmark = .*pytest\.mark\.services", path.read_text(), re.MULTILINE)
