"""Commands that run out of memory or are interrupted end without a traceback."""

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slc_ops import cli

ROOT = Path(__file__).parents[2]
MAIN = [sys.executable, "-c", "from slc_ops.cli import main; main()"]


def start(*arguments: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [*MAIN, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


def error_of(process: "subprocess.Popen[bytes]", seconds: int) -> bytes:
    """Return the standard error of a command; kill it if it does not end in time."""
    try:
        return process.communicate(timeout=seconds)[1]
    finally:
        process.kill()


@pytest.mark.chaos
@pytest.mark.faults(
    "`slc-ops compare` with 400 to 800 MB of address space",
    "it succeeds, or ends with one line and exit code 2, or a library aborts; never a traceback",
)
def test_too_little_address_space_gives_no_traceback(tmp_path: Path, record_property) -> None:
    rows = [f"i{k % 5},{k % 2},{(k % 9 - 4) / 2}" for k in range(200)]
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("\n".join(["item_id,label,logit", *rows, name[0] + ",1,0.3"]) + "\n")
    sizes = (400, 500, 600, 700, 800)
    record_property("runs", len(sizes))
    for megabytes in sizes:
        process = start("compare", "--calibration", f"{tmp_path}/a.csv", "--test", f"{tmp_path}/b.csv")
        resource.prlimit(process.pid, resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
        said = error_of(process, seconds=120)
        assert b"Traceback" not in said, f"{megabytes} MB: {said.decode()}"
        if process.returncode not in (1, -signal.SIGABRT):  # OpenBLAS and Arrow abort the process themselves
            assert (process.returncode, said[:38]) in (
                (0, b""),
                (2, b"slc-ops: there is not enough memory; p"),
            )


@pytest.mark.chaos
@pytest.mark.faults(
    "`slc-ops demo` with 1.5 GB of address space, where libraries fail to load",
    "one line and exit code 2, or it succeeds; never a traceback",
)
def test_too_little_memory_to_load_a_library_gives_no_traceback(tmp_path: Path) -> None:
    process = start("demo", "--out", str(tmp_path / "demo"))
    resource.prlimit(process.pid, resource.RLIMIT_AS, (1500 << 20, 1500 << 20))
    said = error_of(process, seconds=300)
    assert b"Traceback" not in said, said.decode()
    assert process.returncode in (0, 2)


@pytest.mark.chaos
@pytest.mark.faults(
    "Ctrl-C while a command ends, after its output", "exit code 0, 130 or the signal; never a traceback"
)
def test_an_interrupt_after_the_output_gives_no_traceback(record_property) -> None:
    delays = (0, 0.001, 0.003, 0.01, 0.03)
    record_property("runs", len(delays))
    for delay in delays:
        process = start("schema")
        assert process.stdout is not None
        assert process.stdout.read(1) == b"{"
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        said = error_of(process, seconds=120)
        assert b"Traceback" not in said, f"after {delay} s: {said.decode()}"
        assert process.returncode in (0, 130, -signal.SIGINT)


def test_an_interrupt_outside_of_click_gives_exit_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli.app, "main", interrupted)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 130
