"""Every command and program of the site runs and prints the output on the page."""

import json
from pathlib import Path

import jsonschema
import pytest

import slc_ops
from slc_ops.base.methods import METHODS
from tests.api.factory import frame
from tests.pages import ROOT, commands, run, shell, to_run


@pytest.mark.slow
def test_the_first_page_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("docs/index.md", tmp_path, skip=installed_elsewhere) > 0


def installed_elsewhere(command: str) -> bool:
    """The wheel is built and installed by the tests of the release."""
    return command.startswith(("make dist", "pip install", "uvx "))


@pytest.mark.parametrize(("typed", "offered"), [("repl", "plain,replay"), ("replay --fr", "plain,--from")])
def test_shell_completion_covers_commands_and_options(typed: str, offered: str, tmp_path: Path) -> None:
    words = f"slc-ops {typed}"
    variables = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    assert offered in shell("slc-ops", tmp_path, _SLC_OPS_COMPLETE="bash_complete", **variables).split()


@pytest.mark.slow
def test_the_paper_command_of_the_performance_page_runs(tmp_path: Path) -> None:
    """The command of performance.md without its simulation, which has its own test."""
    rows = frame().rename(columns={"problem": "item_id", "score": "logit", "correct": "label"})
    rows = rows.rename(columns={"when": "event_time", "student": "user_id"})
    third = len(rows) // 3
    for k, name in enumerate(("history", "calibration", "test")):
        rows.iloc[k * third : (k + 1) * third].to_parquet(tmp_path / f"{name}.parquet")
    (block,) = to_run("docs/performance.md#The paper's analyses", "console")
    for step in commands(block):
        shell(f"{step.text} --no-regime", tmp_path)
    assert (tmp_path / "paper" / "paper.md").is_file()


@pytest.mark.parametrize("method", METHODS)
def test_the_schemas_describe_the_written_files(method: str, tmp_path: Path) -> None:
    rows = frame()
    columns = {"item": "problem", "logit": "score", "time": "when", "user": "student"}
    slc_ops.ItemCalibrator(method, **columns).fit(rows.drop(columns="correct"), rows["correct"]).save(
        tmp_path / "set"
    )
    for name in ("params", "golden"):
        schema = json.loads((ROOT / "docs" / "assets" / f"{name}.schema.json").read_text())
        found = json.loads((tmp_path / "set" / f"{name}.json").read_text())
        validator = jsonschema.Draft202012Validator(schema)
        validator.validate(found)
        found.pop("method" if name == "params" else "vectors")
        assert not validator.is_valid(found)


@pytest.mark.parametrize("name", ["params", "golden"])
def test_the_schemas_are_valid_schemas(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(
        json.loads((ROOT / "docs" / "assets" / f"{name}.schema.json").read_text())
    )
