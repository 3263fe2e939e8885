"""The notebooks run from top to bottom in a fresh kernel and are stored without outputs."""

import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.pages import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def test_the_api_page_lists_all_notebooks() -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    assert len(NOTEBOOKS) >= 2
    assert all(f"`{path.name}`" in page for path in NOTEBOOKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_has_no_outputs(path: Path) -> None:
    assert path.stat().st_size < 300_000
    cells = json.loads(path.read_text())["cells"]
    assert not any(cell.get("outputs") for cell in cells)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path: Path, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=900, resources=resources).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("text/html" in output.get("data", {}) for output in shown)
