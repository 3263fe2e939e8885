"""The environment: read in one module, typed, and invalid values are named."""

import ast
from pathlib import Path

import pytest

from slc_ops.base.errors import SettingsError
from slc_ops.settings.environment import (
    GROUPS,
    Installation,
    MetricsVariables,
    PlaceVariables,
    RowVariables,
    ServiceVariables,
    TerminalVariables,
    Variables,
)

ROOT = Path(__file__).parents[2]
READER = ROOT / "slc_ops" / "settings" / "environment.py"


def reads(tree: ast.AST) -> list[str]:
    """Our variables that a module reads: os.environ, getenv, or an option's envvar."""
    found = []
    for node in ast.walk(tree):
        asked: list[ast.AST] = []
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and is_environment(node.value):
            asked = [node.slice]
        elif isinstance(node, ast.Compare) and any(is_environment(each) for each in node.comparators):
            asked = [node.left]
        elif isinstance(node, ast.Call):
            method = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            owner = node.func.value if isinstance(node.func, ast.Attribute) else None
            if method == "getenv" or (method in ("get", "pop") and owner and is_environment(owner)):
                asked = list(node.args[:1])
            asked += [each.value for each in node.keywords if each.arg == "envvar"]
        for each in asked:
            text = ast.unparse(each)
            found += [text] if "SLC_OPS_" in text else []
    return found


def is_environment(node: ast.AST) -> bool:
    return ast.unparse(node) in ("os.environ", "environ")


def test_only_one_module_reads_our_variables_from_the_environment() -> None:
    modules = {
        path: path.read_text() for folder in ("slc_ops", "dags") for path in (ROOT / folder).rglob("*.py")
    }
    assert len(modules) > 100
    named = {path: text for path, text in modules.items() if "SLC_OPS_" in text and path != READER}
    found = {str(path.relative_to(ROOT)): reads(ast.parse(text)) for path, text in named.items()}
    assert {path: each for path, each in found.items() if each} == {}


@pytest.mark.parametrize(
    "line",
    [
        "os.environ['SLC_OPS_HOME']",
        "os.environ.get('SLC_OPS_HOME', 'var')",
        "os.getenv('SLC_OPS_HOME')",
        "'SLC_OPS_HOME' in os.environ",
        "click.option('--home', envvar='SLC_OPS_HOME')",
        "click.option('--home', envvar=f'SLC_OPS_{name}')",
    ],
)
def test_the_search_for_readers_finds_one(line: str) -> None:
    assert reads(ast.parse(line))


@pytest.mark.parametrize(
    ("group", "name", "value", "words"),
    [
        (TerminalVariables, "SLC_OPS_LOG", "xml", "SLC_OPS_LOG must be json or unset, found 'xml'"),
        (RowVariables, "SLC_OPS_MEMORY_MB", "-1", "must be a whole number of megabytes, found '-1'"),
        (RowVariables, "SLC_OPS_MEMORY_MB", "1.5", "must be a whole number of megabytes, found '1.5'"),
        (RowVariables, "SLC_OPS_SPARK_WAIT", "nan", "must be seconds, at most a day, found 'nan'"),
        (RowVariables, "SLC_OPS_SPARK_WAIT", "inf", "must be seconds, at most a day, found 'inf'"),
        (RowVariables, "SLC_OPS_SPARK_WAIT", "soon", "must be seconds, at most a day, found 'soon'"),
        (MetricsVariables, "SLC_OPS_METRICS_PORT", "70000", "must be a port, 0 to 65535, found '70000'"),
        (
            ServiceVariables,
            "SLC_OPS_MIN_FREE_MB",
            "much",
            "must be a whole number of megabytes, found 'much'",
        ),
    ],
)
def test_an_invalid_value_is_reported_with_variable_found_and_expected(
    group: type[Variables], name: str, value: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as refused:
        group.read()
    assert name in str(refused.value)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)
    with pytest.raises(SettingsError, match=name):
        group.read({name: value})


def test_an_invalid_variable_does_not_affect_other_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLC_OPS_SPARK_WAIT", "soon")
    monkeypatch.setenv("SLC_OPS_HOME", "/srv/slc")
    assert Installation.from_environment().home == Path("/srv/slc")


@pytest.mark.parametrize("group", GROUPS)
def test_an_empty_variable_counts_as_unset(group: type[Variables], monkeypatch: pytest.MonkeyPatch) -> None:
    for field in group.model_fields.values():
        monkeypatch.setenv(str(field.validation_alias), "")
    assert group.read() == group.read({})


def test_defaults_derived_from_the_home_follow_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for field in PlaceVariables.model_fields.values():
        monkeypatch.delenv(str(field.validation_alias), raising=False)
    monkeypatch.setenv("SLC_OPS_HOME", "/srv/slc ops")
    found = Installation.from_environment()
    assert found.ledger_url == "sqlite:////srv/slc ops/ledger.db"
    assert found.tracking_uri == "sqlite:////srv/slc ops/mlflow/mlflow.db"
    assert found.artifact_root == "file:///srv/slc%20ops/mlflow/artifacts"


def test_the_token_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLC_OPS_METRICS_TOKEN", "hunter2")
    assert "hunter2" not in repr(MetricsVariables.read())
