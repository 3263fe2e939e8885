"""Which wrong lines would the quick tests detect?  scripts/mutants.py [--mutants 300] [--seed 1]

One expression at a time of the code that affects results is made wrong (`<` into `<=`, `+` into `-`,
`and` into `or`, 1 into 2, a condition into its opposite), in a separate process, and the quick tests that
reach its statement run there until one fails. A test that also fails without the mutant does not count. A
mutant that no test detects survives: write a test or delete the code. A mutant replaces the code object of
its function in a forked process: no code is written, and nothing is imported or collected again.

The outcomes stand in var/mutants.jsonl as they are found, so that a run can be stopped at any time:

  scripts/mutants.py --again                           the rest of a stopped run, and what a change may affect
  scripts/mutants.py --again --only verdict.py:193     one mutant
  scripts/mutants.py --packages methods --minutes 10   a part
  scripts/mutants.py --again --tests tests/evidence/test_auc.py    undetected mutants, by new tests
"""

import argparse
import hashlib
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from coverage import Coverage, CoverageData
from mutated_code import DECIDING, ROOT, Mutant, mutants, put_in_place

QUICK = "not slow and not services and not chaos"
DATA = ROOT / "var" / "mutants.coverage"
MEASURED = ROOT / "var" / "mutants.measured"
"""The digests of the code and the tests that the coverage belongs to."""
FOUND = ROOT / "var" / "mutants.jsonl"
OPTIONS = ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:schemathesis"]
THREADED = "tests/serving/test_fuzz.py"
"""It starts a thread when it is imported, and a fork has no copy of the thread."""
LONGEST_TEST = 60
"""Seconds after which a test counts as failed: a mutant that loops for ever is detected."""
STUCK = 2 * LONGEST_TEST
"""Seconds without the end of a test after which the process is stopped: a loop that no signal interrupts."""


def main() -> int:
    """Sample mutants, run their tests, print the table; return 1 if fewer than 90 % were detected."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--again", action="store_true", help="keep coverage and outcomes that are valid")
    parser.add_argument("--packages", nargs="*", default=list(DECIDING), choices=list(DECIDING))
    parser.add_argument("--only", nargs="*", default=[""], help="mutants whose line contains one of these")
    parser.add_argument("--tests", nargs="*", help="run all tests of these files, not the measured ones")
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no mutant after this time")
    parser.add_argument("--workers", type=int, default=2, help="mutants at the same time")
    given = parser.parse_args()
    os.chdir(ROOT)
    FOUND.parent.mkdir(exist_ok=True)
    if not given.again:
        FOUND.unlink(missing_ok=True)
    if not given.tests and not (
        given.again and MEASURED.exists() and json.loads(MEASURED.read_text()) == state()
    ):
        measure()
        print_coverage()
    everything = [each for package in DECIDING for each in mutants(package)]
    chosen = sorted(everything, key=lambda each: each.draw(given.seed))[: given.mutants]
    chosen = [
        each
        for each in sorted(chosen, key=lambda each: (str(each.path), each.line, each.index))
        if each.package in given.packages and any(text in str(each) for text in given.only)
    ]
    known = earlier_outcomes()
    if given.tests:  # a mutant that survived other tests is tried again
        known = {place: outcome for place, outcome in known.items() if outcome.startswith("detected")}
    waiting = [each for each in chosen if each.place not in known]
    reached = {} if given.tests else tests_by_line()
    tests = {each: tests_of(each, reached) for each in waiting}
    files = {test.partition("::")[0] for found in tests.values() for test in found}
    if waiting:
        end = time.monotonic() + 60 * given.minutes
        experiment = Experiment(tests, given.workers, end, all_tests=bool(given.tests))
        run = given.tests or sorted(filter(os.path.exists, files))
        pytest.main([*OPTIONS, "-m", QUICK, *run], [experiment])
    return report(chosen, earlier_outcomes())


def report(chosen: list[Mutant], outcomes: dict[str, str]) -> int:
    """Print the table by package, then the undetected mutants; return 1 if they are more than 10 %."""
    print(f"\n{'package':<16}{'mutants':>8}{'detected':>9}{'survived':>9}{'not run':>8}{'share':>7}")
    for package in [*sorted({each.package for each in chosen}), "all"]:
        found = [
            outcomes.get(each.place, "not run").partition(" by ")[0]
            for each in chosen
            if package in (each.package, "all")
        ]
        count = Counter(found)
        print(
            f"{package:<16}{len(found):>8}{count['detected']:>9}{count['survived'] + count['unreached']:>9}"
            f"{count['not run']:>8}{count['detected'] / max(len(found), 1):>7.0%}"
        )
    undetected = [each for each in chosen if not outcomes.get(each.place, "").startswith("detected")]
    for each in undetected:
        print(f"{outcomes.get(each.place, 'not run')}: {each}")
    return int(len(undetected) > 0.1 * len(chosen))


@cache
def digest(path: Path) -> str:
    """Return the digest of a Python file, or of all files in a directory."""
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    return hashlib.sha256(b"".join(hashlib.sha256(each.read_bytes()).digest() for each in files)).hexdigest()


def earlier_outcomes() -> dict[str, str]:
    """Mutant → its outcome: valid if its file is unchanged, and an undetected one if nothing is changed."""
    lines = FOUND.read_text().splitlines() if FOUND.exists() else []
    found: dict[str, str] = {}
    for line in lines:
        each = json.loads(line)
        detected = each["outcome"].startswith("detected")
        if each["file"] == digest(ROOT / each["path"]) and (detected or each["rest"] == state()):
            found[each["place"]] = each["outcome"]
    return found


def state() -> list[str]:
    """Return the digests of all code and tests."""
    return [digest(ROOT / "slc_ops"), digest(ROOT / "tests")]


def write_outcome(mutant: Mutant, outcome: str) -> None:
    """Append to the known outcomes."""
    path = str(mutant.path.relative_to(ROOT))
    digests = {"file": digest(mutant.path), "rest": state()}
    entry = {"place": mutant.place, "outcome": outcome, "path": path, **digests}
    with FOUND.open("a") as file:
        file.write(json.dumps(entry) + "\n")


def measure() -> None:
    """Run the quick tests once and record which test reaches which line."""
    command = "-m pytest -n 2 --dist loadfile --cov=slc_ops --cov-branch --cov-context=test --cov-report= -m"
    subprocess.run(
        [sys.executable, *command.split(), QUICK], check=True, env={**os.environ, "COVERAGE_FILE": str(DATA)}
    )
    MEASURED.write_text(json.dumps(state()))


def print_coverage() -> None:
    """Print the share of lines and branches that the quick tests reach, by package."""
    report = DATA.with_suffix(".json")
    coverage = Coverage(data_file=str(DATA))
    coverage.load()
    coverage.json_report(outfile=str(report))
    sums: dict[str, Counter[str]] = {}
    for name, each in json.loads(report.read_text())["files"].items():
        sums.setdefault(Path(name).parts[1], Counter()).update(each["summary"])
    print(f"\n{'package':<16}{'lines':>8}{'reached':>9}{'branches':>10}{'reached':>9}")
    for package, of in sorted(sums.items()):
        lines, branches = of["num_statements"], of["num_branches"]
        print(
            f"{package:<16}{lines:>8}{of['covered_lines'] / max(lines, 1):>9.1%}"
            f"{branches:>10}{of['covered_branches'] / max(branches, 1):>9.1%}"
        )


def tests_by_line() -> dict[tuple[Path, int], set[str]]:
    """Line of covered code → the tests that reach it."""
    data = CoverageData(basename=str(DATA))
    data.read()
    return {
        (Path(name), line): {context.rpartition("|")[0] for context in contexts if context}
        for name in data.measured_files()
        for line, contexts in data.contexts_by_lineno(name).items()
    }


def tests_of(mutant: Mutant, reached: dict[tuple[Path, int], set[str]]) -> list[str]:
    """Return the tests that reach a mutant's statement: by file, those of its module and package first.

    The tests of a file stay together, because they share data.
    """
    found = [reached.get((mutant.path, line), set()) for line in mutant.lines]
    tests = [test for test in set().union(*found) if not test.startswith(THREADED)]
    per_file = Counter(test.partition("::")[0] for test in tests)

    def rank(test: str) -> tuple[bool, bool, int, str]:
        file = test.partition("::")[0]
        room = f"tests/{mutant.path.relative_to(ROOT).parts[1]}/"
        return f"test_{mutant.path.stem}" not in file, not file.startswith(room), per_file[file], test

    return sorted(tests, key=rank)


class Run:
    """Tests of one mutant (or of none) in a fork; the first failure ends them."""

    def __init__(self, mutant: Mutant | None, tests: list[pytest.Item]) -> None:
        self.mutant, self.begin = mutant, time.monotonic()
        self.home = Path(tempfile.mkdtemp(prefix="slc-mutant-"))
        self.notes = self.home / "notes"
        self.notes.touch()
        self.child = os.fork()
        if self.child == 0:
            self._be(tests)

    def _be(self, tests: list[pytest.Item]) -> None:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        os.setsid()
        tempfile.tempdir = os.environ["TMPDIR"] = os.environ["PYTEST_DEBUG_TEMPROOT"] = str(self.home)
        code = 3
        with suppress(BaseException):
            sys.modules["tests.conftest"].use_new_home()
            if self.mutant is not None:
                put_in_place(self.mutant)
            notes = Notes(self.notes)
            tests[0].config.pluginmanager.register(notes)
            for item, following in zip(tests, [*tests[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if notes.failed:
                    item.config.hook.pytest_runtest_teardown(item=item, nextitem=None)
                    break
            code = 0
        os._exit(code)

    def outcome(self) -> str | None:
        """Return None while it runs, then the test that failed, hung or crashed, or an empty text."""
        done, status = os.waitpid(self.child, os.WNOHANG)
        stuck = not done and time.time() - self.notes.stat().st_mtime > STUCK
        if not done and not stuck:
            return None
        with suppress(ProcessLookupError):  # also what a test left running
            os.killpg(self.child, signal.SIGKILL)
        if stuck:
            os.waitpid(self.child, 0)
        last = self.notes.read_text().splitlines()[-1:]
        shutil.rmtree(self.home, ignore_errors=True)
        if not last:
            raise RuntimeError(f"{self.mutant} cannot be put in place, or its tests do not begin")
        if stuck or status:
            return last[0].removeprefix("failed ")
        return last[0].removeprefix("failed ") if last[0].startswith("failed ") else ""


class Notes:
    """Write the names of the tests as they begin and fail."""

    def __init__(self, path: Path) -> None:
        self.path, self.failed = path, False

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = True
            self._write(f"failed {report.nodeid}")

    def _write(self, line: str) -> None:
        with self.path.open("a") as file:
            file.write(line + "\n")


class Experiment:
    """Run the tests of every mutant in place of the collected tests, several mutants at a time."""

    def __init__(self, tests: dict[Mutant, list[str]], workers: int, end: float, all_tests: bool) -> None:
        self.tests, self.workers, self.end, self.all_tests = tests, workers, end, all_tests
        self.items: dict[str, pytest.Item] = {}
        self.sound: dict[str, bool] = {}
        """Test → whether it passes without a mutant."""

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.items = {item.nodeid: item for item in session.items}
        for each in self.tests:  # methods are imported on first use; a mutant replaces what is imported
            importlib.import_module(".".join(each.path.relative_to(ROOT).with_suffix("").parts))
        for number, (run, each, outcome) in enumerate(self._outcomes(), 1):
            write_outcome(each, outcome)
            seconds = 0.0 if run is None else time.monotonic() - run.begin
            print(f"{number}/{len(self.tests)} {seconds:.0f} s {outcome}: {each}", flush=True)
        return True

    def _outcomes(self) -> Iterator[tuple[Run | None, Mutant, str]]:
        waiting, running = list(reversed(self.tests)), dict[Run, Mutant]()
        while (waiting and time.monotonic() < self.end) or running:
            while waiting and len(running) < self.workers and time.monotonic() < self.end:
                each = waiting.pop()
                tests = self._items_of(each)
                if tests:
                    running[Run(each, tests)] = each
                else:
                    yield None, each, "unreached"
            time.sleep(0.02)
            for run, each in list(running.items()):
                failed = run.outcome()
                if failed is None:
                    continue
                del running[run]
                if not failed:
                    yield run, each, "survived"
                elif self._passes(failed):
                    yield run, each, f"detected by {failed}"
                else:
                    waiting.append(each)

    def _items_of(self, mutant: Mutant) -> list[pytest.Item]:
        names = list(self.items) if self.all_tests else self.tests[mutant]
        return [self.items[name] for name in names if name in self.items and self.sound.get(name, True)]

    def _passes(self, test: str) -> bool:
        """Return whether a test passes without a mutant."""
        if test not in self.sound:
            run = Run(None, [self.items[test]])
            while (failed := run.outcome()) is None:
                time.sleep(0.02)
            self.sound[test] = not failed
            if failed:
                print(f"{test} fails without a mutant too: it does not count", flush=True)
        return self.sound[test]


if __name__ == "__main__":
    sys.exit(main())
