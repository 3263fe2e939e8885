"""Packages depend in one direction; an import against the order fails `make check`."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package's sources that a test may break."""
    for source in (ROOT / "slc_ops").rglob("*.py"):
        target = tmp_path / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source.read_text())
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    return tmp_path


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("rows/passes.py", "from slc_ops.evidence import slices"),
        ("registry/model.py", "import slc_ops.serving"),
        ("refresh/pipeline.py", "def ask():\n    import slc_ops.engines"),
        ("engines/__init__.py", "from slc_ops.methods import fit"),
        ("settings/sources.py", "from slc_ops.intake import contract"),
        ("refresh/observed.py", "from slc_ops.production import stores"),
        ("cli/registry.py", "from slc_ops.airflow import retries"),
        ("intake/sources/sql.py", "def ask():\n    from airflow.sdk import BaseHook"),
    ],
)
def test_an_import_against_the_order_is_found(copy: Path, module: str, line: str) -> None:
    broken = copy / "slc_ops" / module
    broken.write_text(f"{broken.read_text()}\n{line}\n")

    found = lint(copy)

    assert found.returncode == 1
    assert "slc_ops." + module.removesuffix(".py").removesuffix("/__init__").replace("/", ".") in found.stdout


def test_the_packages_keep_the_order() -> None:
    found = lint(ROOT)
    assert found.returncode == 0, found.stdout
