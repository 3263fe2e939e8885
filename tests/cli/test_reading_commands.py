"""Read-only commands create nothing and name the location they read; errors give one line and exit code 2."""

import os
import shutil
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NoReturn

import pytest

from slc_ops import cli
from slc_ops.registry import Registry
from tests.registry.conftest import parameters
from tests.registry.factory import WEEKS, copy_home, installation_in, publication

__all__ = ["parameters"]

ROOT = Path(__file__).parents[2]


def run(where: Path, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """``slc-ops`` in a directory, without our variables; a fork of this process, which has its libraries."""
    with TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                become_the_command(where, [out, err], list(arguments), variables)
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        for stream in (out, err):
            stream.seek(0)
        return subprocess.CompletedProcess(arguments, code, out.read(), err.read())


def start(where: Path, *arguments: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """The same as a process of its own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLC_OPS", "MLFLOW", "AIRFLOW"))}
    return subprocess.run(
        [sys.executable, "-c", "from slc_ops.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=where,
        env=kept | {"PYTHONPATH": str(ROOT), "HOME": str(where)} | variables,
        timeout=120,
    )


def become_the_command(
    where: Path, streams: list[IO[str]], arguments: list[str], variables: dict[str, str]
) -> NoReturn:
    for number, stream in enumerate(streams, start=1):
        os.dup2(stream.fileno(), number)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    for name in [name for name in os.environ if name.startswith(("SLC_OPS", "MLFLOW", "AIRFLOW"))]:
        del os.environ[name]
    os.environ.update({"HOME": str(where)} | variables)
    os.chdir(where)
    sys.argv = ["slc-ops", *arguments]
    cli.main()
    sys.exit(0)


READING = [
    ["status"],
    ["history", "--deployment", "demo"],
    ["verify"],
    ["verify", "--deployment", "demo"],
    ["verify", "--repair"],
    ["promote", "--deployment", "demo", "--version", "1"],
    ["rollback", "--deployment", "demo"],
    ["metrics"],
    ["report", "--deployment", "demo", "--window", "2026-01-05/2026-01-12"],
    ["apply", "--params", "models:/slc-demo@champion", "--input", "in.csv", "--output", "out.csv"],
]


@pytest.mark.slow
@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_a_read_only_command_creates_nothing_and_names_the_location_it_read(
    tmp_path: Path, command: list[str]
) -> None:
    (tmp_path / "in.csv").write_text("item_id,logit\na,0.5\n")
    (tmp_path / "deployments.yaml").write_text((ROOT / "dags" / "deployments.yaml").read_text())
    result = run(tmp_path, *command, SLC_OPS_DEPLOYMENTS="deployments.yaml")
    said = result.stdout + result.stderr
    assert result.returncode in (0, 2), said
    assert "Traceback" not in said
    assert f"{tmp_path}/var" in said.replace("\n", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deployments.yaml", "in.csv"]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory, parameters: Path) -> Path:
    """A home with two champions, one after the other."""
    home = tmp_path_factory.mktemp("published")
    registry = Registry.open(installation_in(home))
    for week in (0, 1):
        registry.publish(publication(parameters, window=WEEKS[week]))
    registry.promote("demo", 1, actor="ann", reason="better on every fold of the newest window, by far")
    registry.promote("demo", 2, actor="a person with a rather long name (Airflow approval)", reason="x" * 90)
    return home


@pytest.fixture
def published(kept: Path, tmp_path: Path) -> Registry:
    """The registry of a copy of that home."""
    copy_home(kept, tmp_path)
    return Registry.open(installation_in(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("columns", ["80", "60"])
@pytest.mark.parametrize("command", [["status"], ["history", "--deployment", "demo"]], ids=" ".join)
def test_history_and_status_show_dates_windows_and_reasons_at_80_columns(
    published: Registry, command: list[str], columns: str
) -> None:
    home = published.installation.home
    result = run(home, *command, SLC_OPS_HOME=str(home), COLUMNS=columns)
    assert result.returncode == 0, result.stderr
    assert "…" not in result.stdout
    assert "2026-01-12/2026-01-19" in result.stdout
    if command[0] == "history":
        made = published.history("demo")[0].at
        lines = [line.strip() for line in result.stdout.splitlines()]
        assert any(f"{made:%Y-%m-%d %H:%M:%S} UTC" in line for line in lines)
        assert any(line.startswith("why: better on every fold") for line in lines)
        assert result.stdout.count("x") >= 90
    assert max(len(line) for line in result.stdout.splitlines() if "sqlite" not in line) <= int(columns)


@pytest.mark.slow
def test_a_version_above_2_to_the_63_gives_one_line_and_exit_code_2(published: Registry) -> None:
    home = published.installation.home
    for command in (
        ["promote", "--deployment", "demo", "--version", str(2**63)],
        ["rollback", "--deployment", "demo", "--to", str(2**70)],
        ["apply", "--params", f"models:/slc-demo/{2**63}", "--input", "i.csv", "--output", "o.csv"],
    ):
        result = run(home, *command, SLC_OPS_HOME=str(home))
        assert result.returncode == 2, result.stderr
        assert result.stderr.count("\n") == 1
        assert result.stderr.startswith("slc-ops: ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "variable"),
    [
        ("status", {"SLC_OPS_LEDGER_URL": "postgresql://127.0.0.1:9/ledger?user=ann&password=hunter2"}),
        ("status", {"MLFLOW_TRACKING_URI": "http://ann:hunter2@127.0.0.1:9?token=hunter2"}),
        ("metrics", {"SLC_OPS_LEDGER_URL": "mysql://ann:hunter2@db/ledger?password=hunter2"}),
    ],
)
def test_no_command_prints_a_password_in_an_address(
    published: Registry, command: str, variable: dict[str, str]
) -> None:
    quick = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0", "SLC_OPS_LOG": "json"}
    home = published.installation.home
    result = run(home, command, **{"SLC_OPS_HOME": str(home)} | quick | variable)
    assert "hunter2" not in result.stdout + result.stderr
    assert "Traceback" not in result.stderr


@contextmanager
def mounted(place: Path, size: str) -> Iterator[Path]:
    """A separate real file system, where mounting is allowed."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0777", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KiB."""
    with mounted(tmp_path / "small", "256k") as place:
        yield place


@pytest.fixture
def full_disk(small_disk: Path) -> Path:
    """A disk without free space."""
    with (small_disk / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while filler.write(b"x" * 4096):
            pass
    return small_disk


def refused(result: "subprocess.CompletedProcess[str]", reason: str) -> None:
    """One line, exit code 2, no traceback."""
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    assert result.stderr.splitlines()[-1].startswith("slc-ops: ")
    assert reason in result.stderr


def hidden_files(place: Path) -> list[str]:
    """Files with a temporary name, other than locks."""
    return [path.name for path in place.rglob(".*") if path.is_file() and path.suffix != ".lock"]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["simulate", "apply"])
def test_a_disk_that_fills_up_gives_one_line_exit_code_2_and_no_temporary_file(
    small_disk: Path, tmp_path: Path, parameters: Path, command: str
) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("item_id,logit\n" + "item-1,0.5\n" * 60_000)
    arguments = {
        "simulate": ["--out", str(small_disk / "lake"), "--weeks", "2", "--users", "300", "--items", "50"],
        "apply": ["--params", str(parameters), "--input", str(rows), "--output", str(small_disk / "o.csv")],
    }
    refused(start(tmp_path, command, *arguments[command]), "No space left on device")
    assert hidden_files(small_disk) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["refresh", "--deployment", "demo", "--window", "2026-03-23/2026-03-30"],
        ["status", "--json", "DISK/status.json"],
        ["metrics", "--output", "DISK/slc.prom"],
    ],
    ids=" ".join,
)
def test_a_home_on_a_full_disk_gives_one_line_and_exit_code_2(
    full_disk: Path, tmp_path: Path, command: list[str]
) -> None:
    words = [word.replace("DISK", str(full_disk)) for word in command]
    deployments = str(ROOT / "dags" / "deployments.yaml")
    result = start(tmp_path, *words, SLC_OPS_HOME=str(full_disk / "home"), SLC_OPS_DEPLOYMENTS=deployments)
    refused(result, "No space left on device")
    assert hidden_files(full_disk) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["status"],
        ["history", "--deployment", "demo"],
        ["verify"],
        ["verify", "--repair"],
        ["promote", "--deployment", "demo", "--version", "1"],
        ["refresh", "--deployment", "demo", "--window", "2026-03-23/2026-03-30"],
        ["metrics", "--output", "HOME/slc.prom"],
    ],
    ids=" ".join,
)
def test_a_read_only_home_gives_one_line_and_no_traceback(
    published: Registry, tmp_path: Path, command: list[str]
) -> None:
    with mounted(tmp_path / "read-only", "64m") as place:
        home = place / "home"
        shutil.copytree(published.installation.home, home, ignore=shutil.ignore_patterns("read-only"))
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        words = [word.replace("HOME", str(home)) for word in command]
        deployments = str(ROOT / "dags" / "deployments.yaml")
        result = run(tmp_path, *words, SLC_OPS_HOME=str(home), SLC_OPS_DEPLOYMENTS=deployments)
    assert "Traceback" not in result.stderr
    if command[-1] == "--repair" and not result.returncode:
        return  # nothing to repair
    reads = command[0] in ("status", "history", "verify") and command[-1] != "--repair"
    assert result.returncode == (0 if reads else 2), result.stderr
    assert reads or result.stderr.splitlines()[-1].startswith("slc-ops: ")


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        ImportError("x.so: failed to map segment"),
        RuntimeError("can't start new thread"),
    ],
    ids=repr,
)
def test_too_little_memory_gives_one_line_and_exit_code_2(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def runs_out(**_: object) -> None:
        raise error

    monkeypatch.setattr(cli.app, "main", runs_out)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("slc-ops: there is not enough memory")
