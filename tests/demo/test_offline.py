"""``slc-ops demo``: where it writes and which files it contains."""

from pathlib import Path

from click.testing import CliRunner

from slc_ops.base.errors import SettingsError
from slc_ops.cli.data import demo
from slc_ops.demo.home import DEPLOYMENTS

ROOT = Path(__file__).parents[2]


def test_a_directory_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    answer = CliRunner().invoke(demo, ["--out", str(tmp_path)])
    assert isinstance(answer.exception, SettingsError)
    assert "choose an empty directory with --out" in str(answer.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_the_package_and_the_checkout_have_the_same_deployments_file() -> None:
    for_editors, _, text = (ROOT / "dags" / "deployments.yaml").read_text().partition("\n")
    assert for_editors == "# yaml-language-server: $schema=deployments.schema.json"
    assert DEPLOYMENTS.read_text() == text
