"""The commands, programs and outputs of the demo in README.md and serving.md are correct."""

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.pages import ROOT, environment, run, shell, steps, to_run

pytestmark = pytest.mark.slow
README = "README.md"
MAKEFILE = (ROOT / "Makefile").read_text()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of README's ``slc-ops demo``; ``said.txt`` holds its output."""
    directory = tmp_path_factory.mktemp("demo")
    (directory / "said.txt").write_text(shell("slc-ops demo", directory, COLUMNS="80"))
    return directory


def test_the_output_in_the_readme_is_that_of_the_demo(directory: Path) -> None:
    """Exactly, except for the machine-specific parts of paths."""
    (shown,) = [block.text for block in to_run(README, "text")]
    said = "\n".join(line.rstrip() for line in (directory / "said.txt").read_text().splitlines())
    pattern = ".*".join(re.escape(part) for part in shown.rstrip("\n").split("…"))
    assert re.search(pattern, said), f"README.md shows\n{shown}\nthe demo printed\n{said}"


def test_every_command_and_program_of_the_readme_runs(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(directory)
    first, *_ = to_run("docs/index.md", "python")
    frames: dict[str, object] = {}
    exec(compile(first.text, "index.md", "exec"), frames)  # noqa: S102 - our own page makes may and june
    assert run(README, directory, frames, skip=done_elsewhere) == 6
    assert (directory / "june.html").is_file()
    assert (directory / "replay" / "replay.html").is_file()


def done_elsewhere(command: str) -> bool:
    """``make`` is run by .ci/run; packages are installed by the tests of the release."""
    if command.startswith("make "):
        assert re.search(rf"^{command.split()[1]}:", MAKEFILE, re.MULTILINE), command
        return True
    return command.startswith("pip install") or command == "slc-ops demo" or served(command)


def served(command: str) -> bool:
    """Commands that start or call the server: run below on a free port."""
    return command.startswith(("slc-ops serve ", "curl "))


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
@pytest.mark.parametrize("page", [README, "docs/serving.md"])
def test_the_server_returns_the_answers_on_the_page(directory: Path, tmp_path: Path, page: str) -> None:
    start, *asked = [step for step in steps(page) if served(step.text)]
    assert asked
    said = tmp_path / "address.json"
    arguments = start.text.removesuffix(" &").replace("--port 8080", f"--port 0 --json {said}").split()
    home = directory / "slc-demo"
    variables = {"SLC_OPS_HOME": str(home), "SLC_OPS_DEPLOYMENTS": str(home / "deployments.yaml")}
    command = [str(Path(sys.executable).parent / arguments[0]), *arguments[1:]]
    with subprocess.Popen(command, env=environment() | variables, start_new_session=True) as server:
        try:
            while not said.exists():
                assert server.poll() is None
                time.sleep(0.05)
            address = json.loads(said.read_text())["address"]
            for step in asked:
                step.check(shell(step.text.replace("http://127.0.0.1:8080", address), tmp_path))
        finally:
            server.terminate()


def test_every_command_and_program_of_the_serving_page_runs(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(directory)
    assert run("docs/serving.md", directory, skip=served) > 3


def test_the_readme_is_short_and_has_no_dead_links() -> None:
    text = (ROOT / README).read_text()
    assert len(text.splitlines()) < 120
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (ROOT / target).exists(), target
