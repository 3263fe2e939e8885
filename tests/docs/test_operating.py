"""Every command of runbooks.md and installation.md runs, in order, on a deployment with two champions."""

import re
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from slc_ops.cli import COMMANDS, app
from tests.pages import ROOT, commands, to_run

TEXT = (ROOT / "docs" / "runbooks.md").read_text()
INCIDENTS = TEXT.partition("\n## Incidents\n")[2].partition("\n## Changes\n")[0]
SECTIONS = re.findall(r"^### (.+)$", INCIDENTS, re.MULTILINE)
SERVICES = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())["services"]
DEPLOYMENTS = """\
deployments:
  demo:
    source: {kind: lake, path: lake/demo}
    methods: [base, platt_eb, slc_eb]
    link_windows: 3
    evidence_windows: 2
    start: 2026-01-05
    gate: auto
"""
PRESUPPOSED = {
    "promote": "slc-ops refresh --deployment demo --window 2026-03-30/2026-04-06",  # its version waits
    "rename-items": "slc-ops rollback --deployment demo --reason 'there is a champion again'",
}
"""Command → what leads to the state in which the page says to type it; its neighbours are alternatives."""


def lines(page: str) -> list[str]:
    return [step.text for block in to_run(page, "console") for step in commands(block)]


def test_every_runbook_has_a_symptom_an_action_a_command_and_an_end() -> None:
    parts = re.split(r"^### .+$", INCIDENTS, flags=re.MULTILINE)[1:]
    for head, part in zip(SECTIONS, parts, strict=True):
        for mark in ("**Symptom.**", "**Action.**", "**Resolved when**", "```console"):
            assert mark in part, f"{head} lacks {mark}"
    wanted = {"Late labels", "Wrong time zone", "Outage week", "Erased users", "Restored backup"}
    assert wanted | {"Decaying champion"} <= set(SECTIONS)


def call(line: str) -> None:
    """Run one of our commands in this process, so that MLflow is imported once."""
    answer = CliRunner().invoke(app, shlex.split(line)[1:])
    assert answer.exit_code == 0, f"{line}: {answer.output} {answer.exception!r}"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two refreshed weeks: the current and the previous champion; and the logs of a third week."""
    (tmp_path / "deployments.yaml").write_text(DEPLOYMENTS)
    (tmp_path / "users.txt").write_text("user-000001\n")
    (tmp_path / "ids.csv").write_text("old_id,new_id\nitem-000017,problem-17\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLC_OPS_HOME", str(tmp_path))
    monkeypatch.setenv("SLC_OPS_DEPLOYMENTS", str(tmp_path / "deployments.yaml"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    monkeypatch.delenv("AIRFLOW_HOME")
    call("slc-ops simulate --out lake/demo --weeks 13 --users 300 --items 60 --start 2026-01-05")
    for window in ("2026-03-16/2026-03-23", "2026-03-23/2026-03-30"):
        call(f"slc-ops refresh --deployment demo --window {window}")
    return tmp_path


@pytest.mark.slow
def test_every_command_of_the_runbooks_runs(home: Path) -> None:
    found = lines("docs/runbooks.md")
    assert len(found) > 15
    for line in found:
        name = line.split()[1]
        assert name in COMMANDS, line
        if name == "promote":
            (home / "deployments.yaml").write_text(DEPLOYMENTS.replace("gate: auto", "gate: never"))
        if name in PRESUPPOSED:
            call(PRESUPPOSED[name])
        call(line)


def test_every_command_of_the_installation_page_starts_a_service_or_exists() -> None:
    services = set()
    for line in lines("docs/installation.md"):
        command = re.sub(r"\s+#.*$", "", line)
        if command.startswith("make "):
            assert re.search(rf"^{command.split()[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        elif command.startswith("scripts/"):
            assert (ROOT / command).is_file()
        else:  # test_services.py starts these
            words = command.removeprefix(".venv/bin/python -m slc_ops.production service ").split()
            assert words[0] in SERVICES, line
            services.add(words[0])
    assert {"init", "mlflow", "airflow-worker", "metrics"} <= services
