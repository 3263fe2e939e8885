"""The table of extras agrees with pyproject.toml and the imports."""

import ast
import re
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from slc_ops.base import extras
from slc_ops.base.extras import EXTRAS, MissingExtra, require

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OF_AIRFLOW = {"fastapi", "starlette"}
"""Its own web stack, imported by the page only."""
PARTS = {
    "apache-airflow": {"apache-airflow-core"},
    "boto3": {"botocore"},
    "celery": {"kombu", "redis"},
    "jinja2": {"markupsafe"},
    "mlflow": {"werkzeug"},
    "scikit-learn": {"threadpoolctl"},
}
"""What these are made of, or cannot do without."""


@cache
def brought() -> Mapping[str, list[str]]:
    """Module → the distributions that contain it."""
    return packages_distributions()


def imported() -> set[str]:
    """The top-level names that modules of slc_ops import anywhere."""
    names = set()
    for path in (ROOT / "slc_ops").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.partition(".")[0])
    return names - {"slc_ops"} - sys.stdlib_module_names


def distributions(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=!]", each)[0].replace("_", "-").lower() for each in requirements}


def brought_by(module: str) -> set[str]:
    found = brought().get(module, [module])  # an extra that is not installed here: pyspark
    return {name.replace("_", "-").lower() for name in found}


@pytest.mark.slow
def test_every_imported_library_belongs_to_the_core_or_an_extra() -> None:
    core = distributions(PROJECT["dependencies"])
    known = {module for modules in EXTRAS.values() for module in modules} | OF_AIRFLOW
    assert {name for name in imported() if name not in known and not brought_by(name) & core} == set()


@pytest.mark.parametrize("extra", sorted(EXTRAS))
def test_every_extra_of_the_table_installs_its_modules(extra: str) -> None:
    wanted = distributions(PROJECT["optional-dependencies"][extra])
    for each in sorted(wanted):
        wanted |= PARTS.get(each, set())
    for module in EXTRAS[extra]:
        assert brought_by(module) & wanted, module


def test_the_core_contains_no_library_of_an_extra() -> None:
    core = distributions(PROJECT["dependencies"])
    assert [m for modules in EXTRAS.values() for m in modules if brought_by(m) & core] == []


def test_all_missing_libraries_are_named_before_the_work_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(extras.EXTRAS, "quality", ("no_such_module",))
    monkeypatch.setitem(extras.EXTRAS, "report", ("json", "nor_this_one", "nor_that_one"))
    with pytest.raises(MissingExtra) as caught:
        require("slc-ops refresh", "mlflow", "quality", "report")
    assert str(caught.value) == (
        "slc-ops refresh needs more (no no_such_module, no nor_this_one); "
        "run: pip install 'slc-ops[quality,report]'"
    )
