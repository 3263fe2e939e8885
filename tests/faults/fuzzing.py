"""Mutated command lines, each in a separate process; run by test_arguments.py.

Usage: python -m tests.faults.fuzzing SEED COUNT
Prints one JSON line per command line that ended in a traceback, by a signal, or with another code than 0, 1
or 2; then the number of command lines. Processes are forks of one that has imported the commands, which
saves most of the time.
"""

import importlib
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

from slc_ops import cli

SECONDS = 60
COMMAND_LINES = [
    ["compare", "--calibration", "rows.parquet", "--test", "rows.parquet", "--methods", "platt,slc"],
    ["fit", "--method", "slc", "--calibration", "rows.parquet", "--out", "set", "--prior-var", "0.1"],
    ["apply", "--params", "set", "--in", "rows.parquet", "--out", "out.parquet"],
    ["sweep", "--calibration", "rows.parquet", "--test", "rows.parquet"],
    ["simulate", "--out", "lake", "--weeks", "1", "--users", "20", "--items", "5", "--start", "2026-01-05"],
    ["detectability", "--calibration", "rows.parquet", "--time-bins", "3"],
    ["backtest", "--lake", "lake", "--window", "2026-02-16/2026-02-23", "--methods", "slc"],
    ["refresh", "--deployment", "school", "--window", "2026-02-16/2026-02-23"],
    ["report", "--deployment", "school", "--window", "2026-02-16/2026-02-23"],
    ["status", "--json", "-"],
    ["history", "--deployment", "school"],
    ["promote", "--deployment", "school", "--version", "1", "--actor", "ann", "--reason", "why"],
    ["rollback", "--deployment", "school", "--actor", "ann", "--reason", "why"],
    ["verify", "--repair"],
    ["metrics"],
    ["ingest", "assistments2017", "--in", "rows.parquet", "--out", "out"],
    ["paper", "--calibration", "rows.parquet", "--test", "missing.parquet", "--out", "out"],
    ["control", "flight_delay", "--out", "out"],
]
VALUES = [
    "", "-1", "0", "1e400", "nan", "inf", "-inf", str(2**63), "9" * 400, "0x10", "1,,2", "../no/where",
    "rows.parquet", ".", "\udcff", "😀", "a\nb", "'; DROP TABLE x;--", "%s%n", "{}", "[]", "null",
    "2026-02-30/2026-03-01", "2026-02-16/2026-02-09", "0001-01-01/0001-01-08", "9999-12-27/9999-12-31",
    "--", "-", "-h", "--help", "models:/none/1", "file:///nowhere", "http://127.0.0.1:9/", "x" * 5000,
]  # fmt: skip


def mutated(chance: random.Random) -> list[str]:
    """One of the command lines with one to three changes."""
    line = list(chance.choice(COMMAND_LINES))
    for _ in range(chance.randint(1, 3)):
        index = chance.randrange(len(line))
        change = chance.randrange(5)
        if change == 0:
            line[index] = chance.choice(VALUES)
        elif change == 1:
            line.insert(index, chance.choice(VALUES))
        elif change == 2 and len(line) > 1:
            del line[index]
        elif change == 3:
            line.append(line[index])
        else:
            text = list(line[index] or "x")
            text[chance.randrange(len(text))] = chr(chance.choice([0x20, 0x2C, 0x2D, 0x3D, 0x7F, 0xE9, 0x61]))
            line[index] = "".join(text)
    return [each.replace("\0", "") for each in line]


def fork(line: list[str], output: Path) -> int:
    """Run a command line in a fork; its exit code, or minus the signal that ended it (14: too slow)."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            stream = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(stream, 1)
            os.dup2(stream, 2)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            sys.argv = ["slc-ops", *line]
            try:
                cli.main()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 0
            except BaseException:
                import traceback

                traceback.print_exc()
                code = 1
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return -14


def main(seed: str, count: str) -> None:
    """Print the command lines that failed."""
    for module in {module for module, _ in cli.COMMANDS.values()}:
        importlib.import_module(f"slc_ops.cli.{module}")
    chance = random.Random(int(seed))
    with tempfile.TemporaryDirectory() as place:
        output = Path(place) / "output"
        for _ in range(int(count)):
            line = mutated(chance)
            code = fork(line, output)
            said = output.read_text(errors="replace")
            if code not in (0, 1, 2) or "Traceback" in said:
                print(json.dumps({"line": line, "code": code, "said": said[-1500:]}), flush=True)
    print(count)


if __name__ == "__main__":
    main(*sys.argv[1:])
