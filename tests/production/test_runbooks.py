"""Every command of docs/runbooks.md is run, in the order of the page, on the demo's home."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from slc_ops.base.errors import PromotionRefused, RegistryError
from slc_ops.cli import COMMANDS, app
from slc_ops.demo.offline import run_demo

TEXT = (Path(__file__).parents[2] / "docs" / "runbooks.md").read_text()
SECTIONS = re.findall(r"^## (.+)$", TEXT, re.MULTILINE)
LINES = [
    line.removeprefix("$ ")
    for block in re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("$ slc-ops ")
]
DEPENDS_ON_STATE = {"promote", "rollback", "retire", "rename-items"}  # the page itself retires the champion


def test_every_runbook_says_how_it_shows_what_to_do_and_when_it_is_over() -> None:
    parts = re.split(r"^## .+$", TEXT, flags=re.MULTILINE)[1:]
    for head, part in zip(SECTIONS, parts, strict=True):
        if head in ("New backbone", "Renamed items"):
            continue  # before, on the day, after
        for mark in ("**How it shows.**", "**What to do.**", "**It is over when**", "```console"):
            assert mark in part, f"{head} lacks {mark}"
    wanted = {"Late labels", "Wrong time zone", "Outage week", "Erased users", "Restored backup"}
    assert wanted | {"A champion that decays"} <= set(SECTIONS)


def test_every_command_is_one_of_ours() -> None:
    assert LINES
    assert {line.split()[1] for line in LINES} <= set(COMMANDS)


@pytest.mark.slow
def test_every_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places, _ = run_demo(tmp_path / "home", lambda text: None)
    monkeypatch.setenv("SLC_OPS_HOME", str(places.home))
    monkeypatch.setenv("SLC_OPS_DEPLOYMENTS", str(places.deployments_file))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", places.tracking_uri)
    monkeypatch.delenv("AIRFLOW_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "users.txt").write_text("user-000001\n")
    (tmp_path / "ids.csv").write_text("old_id,new_id\nitem-000017,problem-17\n")
    for line in LINES:
        words = [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', line)][1:]
        if any("FILE" in word or "<" in word for word in words):
            continue
        answer = CliRunner().invoke(app, words)
        if words[0] in DEPENDS_ON_STATE and isinstance(answer.exception, PromotionRefused | RegistryError):
            continue  # refused for what the demo's history is, in one line
        assert answer.exit_code == 0, f"{line}: {answer.output} {answer.exception!r}"
