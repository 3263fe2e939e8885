"""The code version names what decides results: all of it, and nothing else."""

import ast
import shutil

import pytest

from slc_ops.base import code_version as module
from slc_ops.base.code_version import PACKAGE, code_version, deciding_files


@pytest.fixture(autouse=True)
def _not_remembered():
    code_version.cache_clear()
    yield
    code_version.cache_clear()


def test_it_covers_the_plan_the_steps_and_the_settings():
    covered = {file.relative_to(PACKAGE).as_posix() for file in deciding_files()}
    assert covered >= {
        "refresh/pipeline.py", "refresh/plan.py", "refresh/windows.py", "refresh/evidence.py",
        "refresh/publishing.py", "settings/deployments.py", "base/window.py", "methods/slc.py",
    }  # fmt: skip


DECIDES_NOTHING = {
    "base/errors.py": "what a refusal says",
    "base/extras.py": "what to install",
    "base/lineage.py": "what is told of a step",
    "base/locks.py": "who may write now",
    "base/memory.py": "whose memory it is",
    "base/names.py": "which names are allowed",
    "base/threads.py": "when something is computed, not what",
    "base/text.py": "how a number is shown",
    "refresh/gate.py": "who may promote",
    "refresh/schedule.py": "which windows are refused, and when",
    "refresh/observed.py": "how long a step took",
    "refresh/served.py": "what was served, and whether that stops the newest window",
    "settings/connections.py": "how a store is reached",
    "settings/deployments_file.py": "where a deployment is written",
    "settings/environment.py": "how a store is reached, how a model is called in the registry",
}


@pytest.mark.slow
def test_whatever_the_deciding_code_imports_decides_too_or_is_known_to_decide_nothing():
    covered = {file.relative_to(PACKAGE).as_posix() for file in deciding_files()}
    imported = {module for file in deciding_files() for module in _imports(file)}
    shared = {each for each in imported if each.startswith(("base/", "settings/", "refresh/"))}
    assert not shared - covered - set(DECIDES_NOTHING)
    assert not covered & set(DECIDES_NOTHING)


def _imports(file):
    """The modules of the package that a file imports, at its top or inside functions."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("slc_ops."):
            place = PACKAGE.joinpath(*node.module.split(".")[1:])
            for path in [place.with_suffix(".py"), *(place / f"{each.name}.py" for each in node.names)]:
                if path.is_file():
                    yield path.relative_to(PACKAGE).as_posix()


def test_the_papers_sweeps_and_data_set_readers_are_no_part_of_it():
    packages = {file.relative_to(PACKAGE).parts[0] for file in deciding_files()}
    assert not packages & {"paper", "controls", "cli", "airflow", "reporting", "registry", "serving"}
    demo = {file.name for file in deciding_files() if file.parent == PACKAGE / "demo"}
    assert demo == {"population.py", "simulator.py"}  # a source of logs like those of intake
    assert not [file for file in deciding_files() if "sweep" in file.name]


def test_every_named_file_exists():
    assert all(file.is_file() for file in deciding_files())


@pytest.mark.parametrize("library", ["numpy", "pyarrow", "scipy", "great_expectations"])
def test_another_version_of_a_deciding_library_is_another_code_version(monkeypatch, library):
    before = code_version()
    code_version.cache_clear()
    found = module.library_version
    monkeypatch.setattr(module, "library_version", lambda name: "0" if name == library else found(name))
    assert code_version() != before


@pytest.fixture
def copy(monkeypatch, tmp_path):
    """The package's sources, to change."""
    copy = tmp_path / "slc_ops"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(module, "PACKAGE", copy)
    return copy


def test_a_comment_a_docstring_and_another_layout_are_the_same_code_version(copy):
    before = code_version()
    code_version.cache_clear()
    slc = copy / "methods" / "slc.py"
    text = slc.read_text()
    assert text.startswith('"""')
    slc.write_text('"""A typo is corrected.\n\n' + text[3:] + "\n\n# another line\n")
    assert code_version() == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("was", "is_now"),
    [("max(each.", "min(each."), ("0.9", "0.8"), ("<", "<=")],
    ids=["a function", "a constant", "a comparison"],
)
def test_a_formula_is_another_code_version(copy, was, is_now):
    before = code_version()
    code_version.cache_clear()
    plan = copy / "numerics" / "formula.py"
    plan.write_text("def formula(each):\n    return max(each.one, 0.9) < 1\n")
    with_one = code_version()
    assert with_one != before
    code_version.cache_clear()
    plan.write_text(plan.read_text().replace(was, is_now))
    assert code_version() != with_one
