"""``slc-ops study`` from a terminal: its output, and one line if it cannot start."""

import json
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from slc_ops.base import extras
from tests.study.learners import learners

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements-study.txt").read_text()
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command; return exit code, output and errors."""

    def call(*arguments: object) -> tuple[int, str, str]:
        from slc_ops.cli import main

        monkeypatch.setattr("sys.argv", ["slc-ops", "study", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


@pytest.fixture
def log(tmp_path: Path) -> Path:
    pq.write_table(learners(20, 40), tmp_path / "log.parquet")
    return tmp_path / "log.parquet"


def test_without_pytorch_it_names_the_package(
    run: Run, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(extras.EXTRAS, "study", ("no_such_module",))
    code, out, err = run(log, "--out", tmp_path / "out")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "pip install 'slc-ops[study]'" in err
    assert not (tmp_path / "out").exists()


def test_the_installer_needs_a_ready_environment(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "install_study.sh", tmp_path / "scripts")
    done = subprocess.run(
        ["bash", "scripts/install_study.sh"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "run scripts/install.sh first" in done.stderr


def test_every_package_of_the_lock_has_hashes_and_matches_the_extra() -> None:
    entries = re.findall(r"^([a-z]+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", LOCK, re.MULTILINE)
    assert [name for name, _, _ in entries] == ["filelock", "setuptools", "torch"]
    assert len(re.findall("==", LOCK)) == len(entries)
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (torch,) = (each for each in wanted["study"] if each.startswith("torch"))
    assert Version({name: version for name, version, _ in entries}["torch"]) in Requirement(torch).specifier
    assert not any("study" in each for each in wanted["all"])


class TestWithPytorch:
    """Tests that need PyTorch."""

    @pytest.fixture(autouse=True)
    def torch(self) -> None:
        pytest.importorskip(
            "torch", reason="PyTorch is not installed; scripts/install_study.sh adds the extra study"
        )

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("--backbone", "gpt"), "no backbone 'gpt'; there are: dkt, sakt, dkvmn, akt, lpkt"),
            (("--seeds", "1,x"), "'1,x' is not a list of whole numbers"),
            (("--seeds", "-1"), "the seed -1 is negative"),
            (("--choose-epoch", "test"), "'test' is not one of"),
            (("--map", "event_time=when"), "no column when"),
        ],
    )
    def test_invalid_usage_gives_one_line(
        self, run: Run, log: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
    ) -> None:
        code, out, err = run(log, "--out", tmp_path / "out", *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert message in err

    def test_an_unsuitable_log_gives_one_line(self, run: Run, log: Path, tmp_path: Path) -> None:
        pq.write_table(pq.read_table(log).slice(0, 40), log)
        code, out, err = run(log, "--out", tmp_path / "out")
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "1 user" in err

    def test_a_missing_file_gives_one_line(self, run: Run, tmp_path: Path) -> None:
        code, out, err = run(tmp_path / "none.parquet", "--out", tmp_path / "out")
        assert (code, out, err.count("\n")) == (2, "", 1)

    def test_it_trains_reports_progress_and_adds_seeds_to_existing_runs(
        self, run: Run, log: Path, tmp_path: Path
    ) -> None:
        arguments = (log, "--backbone", "dkt", "--epochs", "2", "--out", tmp_path / "out")
        code, out, err = run(*arguments, "--seeds", "1", "--json", tmp_path / "answer.json")
        assert (code, err) == (0, "")
        assert re.search(r"dkt seed 1 epoch 1: loss 0\.\d+, AUC 0\.\d+", out)
        answer = json.loads((tmp_path / "answer.json").read_text())
        assert answer["counts"]["users"] == 20
        assert [each["seed"] for each in answer["runs"]] == [1]
        assert 0 < answer["runs"][0]["methods"]["slc"]["auc"] < 1
        code, out, err = run(*arguments, "--seeds", "2")
        assert code == 0
        assert "dkt-1" in out
        assert "dkt-2" in out
        assert "±" in (tmp_path / "out" / "tables" / "auc.md").read_text()

    @pytest.mark.slow
    def test_a_killed_run_resumes_to_the_same_logits(self, log: Path, tmp_path: Path) -> None:
        def command(out: str) -> list[str]:
            program = str(Path(sys.executable).with_name("slc-ops"))
            return [
                program,
                "study",
                str(log),
                "--backbone",
                "dkt",
                "--seeds",
                "1",
                "--epochs",
                "4",
                "--out",
                out,
            ]

        process = subprocess.Popen(command("killed"), cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            if "epoch 2" in line:
                process.kill()
                break
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert not (tmp_path / "killed" / "dkt-1" / "training.json").exists()
        for out in ("killed", "whole"):
            done = subprocess.run(command(out), cwd=tmp_path, capture_output=True, text=True, check=True)
            assert ("resumes after epoch" in done.stdout) == (out == "killed")
        both = [pq.read_table(tmp_path / out / "dkt-1" / "test.parquet") for out in ("killed", "whole")]
        assert both[0].equals(both[1])

    def test_a_directory_with_runs_of_other_data_is_refused(
        self, run: Run, log: Path, tmp_path: Path
    ) -> None:
        arguments = (log, "--backbone", "dkt", "--epochs", "1", "--seeds", "1", "--out", tmp_path / "out")
        assert run(*arguments)[0] == 0
        pq.write_table(learners(20, 40, seed=5), log)
        code, _, err = run(*arguments)
        assert (code, err.count("\n")) == (2, 1)
        assert "holds a run with other data; give another --out" in err
