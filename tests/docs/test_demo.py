"""README.md and serving.md tell of the demo what it does: their commands, programs and answers."""

import re
from pathlib import Path

import pytest

from tests.pages import ROOT, run, shell, to_run

pytestmark = pytest.mark.slow
README = "README.md"
MAKEFILE = (ROOT / "Makefile").read_text()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where README's ``slc-ops demo`` has run; ``said.txt`` is what it printed."""
    directory = tmp_path_factory.mktemp("demo")
    (directory / "said.txt").write_text(shell("slc-ops demo", directory, COLUMNS="80"))
    return directory


def test_the_result_in_the_readme_is_what_the_demo_prints(directory: Path) -> None:
    """To the last character; of paths the parts that differ from machine to machine are left out."""
    (shown,) = [block.text for block in to_run(README, "text")]
    said = "\n".join(line.rstrip() for line in (directory / "said.txt").read_text().splitlines())
    pattern = ".*".join(re.escape(part) for part in shown.rstrip("\n").split("…"))
    assert re.search(pattern, said), f"README.md shows\n{shown}\nthe demo printed\n{said}"


def test_every_command_and_program_of_the_readme_runs(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(directory)
    first, *_ = to_run("docs/start.md", "python")
    frames: dict[str, object] = {}
    exec(compile(first.text, "start.md", "exec"), frames)  # noqa: S102 - our own page makes may and june
    assert run(README, directory, frames, skip=done_elsewhere) == 5
    assert (directory / "june.html").is_file()
    assert (directory / "replay" / "replay.html").is_file()


def done_elsewhere(command: str) -> bool:
    """``make`` is run by .ci/run; packages are installed by the tests of the release."""
    if command.startswith("make "):
        assert re.search(rf"^{command.split()[1]}:", MAKEFILE, re.MULTILINE), command
        return True
    return command.startswith("pip install") or command == "slc-ops demo"


def test_every_command_and_program_about_serving_runs(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(directory)
    assert run("docs/serving.md", directory) > 3


def test_the_readme_is_short_and_its_links_lead_somewhere() -> None:
    text = (ROOT / README).read_text()
    assert len(text.splitlines()) < 120
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (ROOT / target).exists(), target
