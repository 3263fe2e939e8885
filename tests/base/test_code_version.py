"""The code version covers all code that affects results, and no other code."""

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


def test_the_code_version_covers_the_plan_the_steps_and_the_settings():
    covered = {file.relative_to(PACKAGE).as_posix() for file in deciding_files()}
    assert covered >= {
        "refresh/pipeline.py", "refresh/plan.py", "refresh/windows.py", "refresh/evidence.py",
        "refresh/publishing.py", "settings/deployments.py", "base/window.py", "methods/slc.py",
    }  # fmt: skip


DECIDES_NOTHING = {
    "base/errors.py": "the text of errors",
    "base/extras.py": "packages to install",
    "base/lineage.py": "lineage events",
    "base/locks.py": "file locks",
    "base/memory.py": "the memory allocator",
    "base/names.py": "valid names",
    "base/threads.py": "the order of computations",
    "base/text.py": "formatting",
    "refresh/gate.py": "promotion",
    "refresh/observed.py": "durations",
    "refresh/served.py": "the audit of served probabilities, which may stop the newest window",
    "settings/connections.py": "connections",
    "settings/deployments_file.py": "the deployments file",
    "settings/environment.py": "connections and names in the registry",
}


@pytest.mark.slow
def test_every_import_of_covered_code_is_covered_or_listed_as_irrelevant():
    covered = {file.relative_to(PACKAGE).as_posix() for file in deciding_files()}
    imported = {module for file in deciding_files() for module in _imports(file)}
    shared = {each for each in imported if each.startswith(("base/", "settings/", "refresh/"))}
    assert not shared - covered - set(DECIDES_NOTHING)
    assert not covered & set(DECIDES_NOTHING)


def _imports(file):
    """The modules of the package that a file imports, at the top or inside functions."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("slc_ops."):
            place = PACKAGE.joinpath(*node.module.split(".")[1:])
            for path in [place.with_suffix(".py"), *(place / f"{each.name}.py" for each in node.names)]:
                if path.is_file():
                    yield path.relative_to(PACKAGE).as_posix()


def test_the_papers_sweeps_and_data_set_readers_are_not_covered():
    packages = {file.relative_to(PACKAGE).parts[0] for file in deciding_files()}
    assert not packages & {"paper", "controls", "cli", "airflow", "reporting", "registry", "serving"}
    demo = {file.name for file in deciding_files() if file.parent == PACKAGE / "demo"}
    assert demo == {"population.py"}  # a log source like those in intake
    assert not [file for file in deciding_files() if "sweep" in file.name]


def test_every_named_file_exists():
    assert all(file.is_file() for file in deciding_files())


@pytest.mark.parametrize("library", ["numpy", "pyarrow", "scipy", "great_expectations"])
def test_a_new_version_of_a_numerical_library_changes_the_code_version(monkeypatch, library):
    monkeypatch.setattr(module, "DECIDING_CODE", module.DECIDING_CODE[:3])
    before = code_version()
    code_version.cache_clear()
    found = module.library_version
    monkeypatch.setattr(module, "library_version", lambda name: "0" if name == library else found(name))
    assert code_version() != before


@pytest.fixture
def copy(monkeypatch, tmp_path):
    """A copy of some of the package's sources that a test may change."""
    copy = tmp_path / "slc_ops"
    for name in ("methods", "numerics"):
        shutil.copytree(PACKAGE / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(module, "PACKAGE", copy)
    monkeypatch.setattr(module, "DECIDING_CODE", ("methods", "numerics"))
    return copy


def test_comments_docstrings_and_layout_do_not_change_the_code_version(copy):
    before = code_version()
    code_version.cache_clear()
    slc = copy / "methods" / "slc.py"
    text = slc.read_text()
    assert text.startswith('"""')
    slc.write_text('"""A typo is corrected.\n\n' + text[3:] + "\n\n# another line\n")
    assert code_version() == before


@pytest.mark.parametrize(
    ("was", "is_now"),
    [("max(each.", "min(each."), ("0.9", "0.8"), ("<", "<=")],
    ids=["a function", "a constant", "a comparison"],
)
def test_a_changed_formula_changes_the_code_version(copy, was, is_now):
    before = code_version()
    code_version.cache_clear()
    formula = copy / "numerics" / "formula.py"
    formula.write_text("def formula(each):\n    return max(each.one, 0.9) < 1\n")
    with_one = code_version()
    assert with_one != before
    code_version.cache_clear()
    formula.write_text(formula.read_text().replace(was, is_now))
    assert code_version() != with_one
