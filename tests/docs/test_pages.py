"""Every command and every program on the site's own pages runs, and answers what the page says."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

import slc_ops
from slc_ops.base.methods import METHODS
from tests.api.factory import frame
from tests.pages import ROOT, steps

PAGES = ["start.md", "log.md", "parameter-set.md"]
RUN_ELSEWHERE = {"adopting.md", "operations.md", "runbooks.md", "sources.md", "windows.md"}
"""By the tests of what they describe: an Airflow, an installation, sources, windows."""


def test_every_page_with_commands_is_run_somewhere() -> None:
    with_steps = {page.name for page in (ROOT / "docs").glob("*.md") if any(steps(page))}
    assert with_steps - RUN_ELSEWHERE == set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_the_page_runs_from_top_to_bottom(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    count = 0
    for step in steps(ROOT / "docs" / page):
        count += 1
        if step.kind == "python":
            exec(compile(step.text, page, "exec"), names)  # noqa: S102 - our own page
            continue
        done = subprocess.run(
            ["bash", "-ec", step.text], capture_output=True, text=True, check=False,
            env={**os.environ, "PATH": path, "COLUMNS": "200"},
        )  # fmt: skip
        assert done.returncode == 0, f"{step.text}\n{done.stderr}"
        step.check(done.stdout)
    assert count > 0


@pytest.mark.parametrize("method", METHODS)
def test_the_schemas_describe_what_is_written(method: str, tmp_path: Path) -> None:
    rows = frame()
    columns = {"item": "problem", "logit": "score", "time": "when", "user": "student"}
    slc_ops.ItemCalibrator(method, **columns).fit(rows.drop(columns="correct"), rows["correct"]).save(
        tmp_path / "set"
    )
    for name in ("params", "golden"):
        schema = json.loads((ROOT / "docs" / "assets" / f"{name}.schema.json").read_text())
        found = json.loads((tmp_path / "set" / f"{name}.json").read_text())
        jsonschema.validate(found, schema)
        found.pop("method" if name == "params" else "vectors")
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(found, schema)
