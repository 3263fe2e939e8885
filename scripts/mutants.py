"""Which wrong lines would the quick tests detect?  scripts/mutants.py [--mutants 300] [--seed 1]

One expression at a time of the code that affects results is made wrong (`<` into `<=`, `+` into `-`,
`and` into `or`, 1 into 2, a condition into its opposite), in a separate process, and the quick tests that
reach its line run there until one fails. A test that also fails without the mutant does not count. A mutant
that no test detects survives: write a test or delete the code. A mutant replaces the code object of its
function in a forked process: nothing is written, and nothing is imported again.
"""

import argparse
import ast
import copy
import gc
import hashlib
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import types
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from coverage import Coverage, CoverageData

ROOT = Path(__file__).resolve().parents[1]
QUICK = "not slow and not services and not chaos"
DECIDING = {
    "evidence": ["slc_ops/evidence"],
    "methods": ["slc_ops/methods"],
    "parameters": ["slc_ops/parameters"],
    "refresh rules": [
        "slc_ops/refresh/window_rules.py",
        "slc_ops/refresh/gate.py",
        "slc_ops/refresh/plan.py",
    ],
    "registry rules": ["slc_ops/registry/rules.py", "slc_ops/registry/ledger.py"],
}
DATA = ROOT / "var" / "mutants.coverage"
OPTIONS = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:schemathesis"]
THREADED = "tests/serving/test_fuzz.py"
"""It starts a thread when it is imported, and a fork has no copy of the thread."""
COLLECTION = "the collection"
"""Test files that make data when they are imported fail there."""
LONGEST_TEST = 30
"""Seconds after which a test counts as failed: a mutant that loops for ever is detected."""
LONGEST_RUN = 120
"""Seconds for the tests of a mutant, unless told otherwise; a mutant that outlives them is unfinished."""
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.Pow: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One wrong expression: the ``index``-th mutable position of a file."""

    package: str
    path: Path
    index: int
    line: int
    change: str
    place: str
    """Function, expression and its count there: a change elsewhere leaves the sample as it is."""

    def draw(self, seed: int) -> bytes:
        """Return the seeded rank: the mutants with the lowest ones are the sample."""
        return hashlib.sha256(f"{seed} {self.path.relative_to(ROOT)} {self.place}".encode()).digest()

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.change}"


def main() -> int:
    """Sample mutants, run their tests, print the table; return 1 if fewer than 90 % were detected."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--measured", action="store_true", help="use the coverage of an earlier run")
    parser.add_argument("--workers", type=int, default=2, help="mutants at the same time")
    parser.add_argument("--only", nargs="*", default=[""], help="mutants whose line contains one of these")
    parser.add_argument("--seconds", type=float, default=LONGEST_RUN, help="for the tests of a mutant")
    given = parser.parse_args()
    os.chdir(ROOT)
    if not given.measured or not DATA.exists():
        measure()
    print_coverage()
    reached = tests_by_line()
    everything = [each for package in DECIDING for each in mutants(package)]
    chosen = sorted(everything, key=lambda each: each.draw(given.seed))[: given.mutants]
    chosen.sort(key=lambda each: (str(each.path), each.line, each.index))
    chosen = [each for each in chosen if any(text in str(each) for text in given.only)]
    known = collect({test for each in chosen for test in reached.get((each.path, each.line), ())})
    reached = {place: [test for test in tests if test in known] for place, tests in reached.items()}
    for each in chosen:  # methods are imported on first use; a mutant replaces what is imported
        importlib.import_module(".".join(each.path.relative_to(ROOT).with_suffix("").parts))
    detected: Counter[str] = Counter()
    survivors = []
    for number, (each, outcome) in enumerate(outcomes(chosen, reached, given.workers, given.seconds), 1):
        detected[each.package] += outcome.startswith("detected")
        if not outcome.startswith("detected"):
            survivors.append((each, outcome))
        print(f"{number}/{len(chosen)} {outcome}: {each}", flush=True)
    report(chosen, detected, survivors)
    return 0 if sum(detected.values()) >= 0.9 * len(chosen) else 1


def report(chosen: list[Mutant], detected: Counter[str], survivors: list[tuple[Mutant, str]]) -> None:
    """The table by package, then the undetected mutants."""
    drawn = Counter(each.package for each in chosen)
    print(f"\n{'package':<16}{'mutants':>8}{'detected':>9}{'share':>8}")
    for package, count in drawn.items():
        print(f"{package:<16}{count:>8}{detected[package]:>9}{detected[package] / count:>8.0%}")
    total = sum(detected.values())
    print(f"{'all':<16}{len(chosen):>8}{total:>9}{total / len(chosen):>8.0%}\n")
    for each, outcome in survivors:
        print(f"{outcome}: {each}")


def measure() -> None:
    """Run the quick tests once and record which test reaches which line."""
    DATA.parent.mkdir(exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "2",
        "--dist",
        "loadfile",
        "-m",
        QUICK,
        "--cov=slc_ops",
        "--cov-branch",
        "--cov-context=test",
        "--cov-report=",
    ]
    subprocess.run(command, check=True, env={**os.environ, "COVERAGE_FILE": str(DATA)})


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


def tests_by_line() -> dict[tuple[Path, int], list[str]]:
    """Line of covered code → the tests that reach it; tests of few lines, which are fast, come first."""
    data = CoverageData(basename=str(DATA))
    data.read()
    found: dict[tuple[Path, int], set[str]] = {}
    for name in data.measured_files():
        for line, contexts in data.contexts_by_lineno(name).items():
            tests = {context.rpartition("|")[0] for context in contexts if context}
            found[Path(name), line] = {test for test in tests if not test.startswith(THREADED)}
    lines = Counter(test for tests in found.values() for test in tests)
    return {place: sorted(tests, key=lambda test: (lines[test], test)) for place, tests in found.items()}


def sources(package: str) -> Iterator[Path]:
    """The files of a package that affect results."""
    for name in DECIDING[package]:
        yield from sorted((ROOT / name).rglob("*.py")) if (ROOT / name).is_dir() else [ROOT / name]


def mutants(package: str) -> Iterator[Mutant]:
    """All possible mutants."""
    for path in sources(package):
        tree = ast.parse(path.read_text())
        function = {id(node): each.name for each in functions(tree) for node in ast.walk(each)}
        same: Counter[str] = Counter()
        for index, node in enumerate(turnable(tree)):
            before = ast.unparse(node)
            place = f"{function[id(node)]} {before}"
            same[place] += 1
            turn(node)
            change = f"{before} → {ast.unparse(node)}"[:120]
            yield Mutant(package, path, index, node.lineno, change, f"{place} {same[place]}")


def functions(tree: ast.Module) -> list[ast.FunctionDef]:
    """The functions of a module, inner ones last."""
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def turnable(tree: ast.Module) -> list[ast.expr]:
    """The mutable expressions inside functions in a fixed order, without text for people."""
    found: list[ast.expr] = []

    def visit(node: ast.AST, inside: bool) -> None:
        if isinstance(node, ast.JoinedStr | ast.Raise | ast.AnnAssign | ast.arguments):
            return
        if inside and isinstance(node, ast.expr) and can_turn(node):
            found.append(node)
        for field, value in ast.iter_fields(node):
            if field in ("decorator_list", "returns", "annotation"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    visit(child, inside or (isinstance(node, ast.FunctionDef) and field == "body"))

    visit(tree, False)
    return found


def can_turn(node: ast.expr) -> bool:
    """Whether :func:`turn` has a wrong form of it."""
    if isinstance(node, ast.Compare):
        return len(node.ops) == 1
    if isinstance(node, ast.BinOp):
        return type(node.op) in OPERATORS
    if isinstance(node, ast.Constant):
        return isinstance(node.value, bool | int | float)
    return isinstance(node, ast.BoolOp) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))


def turn(node: ast.expr) -> None:
    """Make the expression wrong, in place."""
    if isinstance(node, ast.Compare):
        node.ops = [COMPARISONS[type(node.ops[0])]()]
    elif isinstance(node, ast.BinOp):
        node.op = OPERATORS[type(node.op)]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.UnaryOp):
        inner = copy.copy(node)
        node.operand = inner  # `not not x` is `bool(x)`
    elif isinstance(node, ast.Constant):
        node.value = not node.value if isinstance(node.value, bool) else node.value + 1


def collect(tests: set[str]) -> set[str]:
    """Import what the tests need, once for all forks; return the tests of these files."""
    files = sorted({test.partition("::")[0] for test in tests})
    found = Collected()
    for _ in range(2):  # a fork collects for the second time: a generator of parameters is empty by then
        pytest.main(["--collect-only", *OPTIONS, "-q", *filter(os.path.exists, files)], [found])
    return found.tests


class Collected:
    """Keep the names of the collected tests; one that was measured under another name cannot run."""

    def __init__(self) -> None:
        self.tests: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.tests = {item.nodeid for item in items}


class Run:
    """Tests of one mutant (or of none) in a fork; the first failure ends them."""

    def __init__(self, mutant: Mutant | None, tests: list[str], seconds: float) -> None:
        self.mutant, self.tests = mutant, tests
        self.end = time.monotonic() + seconds
        self.notes = Path(tempfile.mkstemp(prefix="slc-mutant-")[1])
        self.child = os.fork()
        if self.child == 0:
            self._be()

    def _be(self) -> None:
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        os.setsid()
        try:
            sys.modules["tests.conftest"].use_new_home()
            if self.mutant is not None:
                put_in_place(self.mutant)
            options = [*OPTIONS, "-x", f"--timeout={LONGEST_TEST}"]
            code = pytest.main([*options, *self.tests], plugins=[FirstFailure(self.notes)])
        except BaseException:
            code = 3
        os._exit(int(code))

    def outcome(self) -> str | None:
        """Return None while it runs, then the failed test, or why there is none."""
        done, status = os.waitpid(self.child, os.WNOHANG)
        if not done:
            if time.monotonic() < self.end:
                return None
            os.killpg(self.child, signal.SIGKILL)
            os.waitpid(self.child, 0)
            return "unfinished"
        code = os.waitstatus_to_exitcode(status)
        failed = self.notes.read_text()
        self.notes.unlink()
        if code == pytest.ExitCode.INTERRUPTED:
            return COLLECTION
        if code > 1:
            return "broken"
        return failed or ("a crash" if code else "survived")


class FirstFailure:
    """Write the name of the failed test to a file."""

    def __init__(self, notes: Path) -> None:
        self.notes = notes

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.notes.write_text(report.nodeid)


def outcomes(
    chosen: list[Mutant], reached: dict[tuple[Path, int], list[str]], workers: int, seconds: float
) -> Iterator[tuple[Mutant, str]]:
    """Run the tests of every mutant, several mutants at a time; yield whether one of them failed."""
    sound: dict[str, bool] = {"a crash": True, COLLECTION: True}
    waiting, running = list(reversed(chosen)), dict[Run, Mutant]()
    while waiting or running:
        while waiting and len(running) < workers:
            each = waiting.pop()
            tests = [test for test in reached.get((each.path, each.line), []) if sound.get(test, True)]
            if tests:
                running[Run(each, tests, seconds)] = each
            else:
                yield each, "unreached"
        time.sleep(0.05)
        for run, each in list(running.items()):
            failed = run.outcome()
            if failed is None:
                continue
            del running[run]
            if failed in ("survived", "unfinished", "broken"):
                yield each, failed
                continue
            if failed not in sound:
                sound[failed] = passes(failed)
            if sound[failed]:
                yield each, f"detected by {failed}"
            else:
                waiting.append(each)


def passes(test: str) -> bool:
    """Return whether a test passes without a mutant."""
    run = Run(None, [test], LONGEST_RUN)
    while (failed := run.outcome()) is None:
        time.sleep(0.05)
    if failed != "survived":
        print(f"{test} fails without a mutant too: it does not count", flush=True)
    return failed == "survived"


def put_in_place(mutant: Mutant) -> None:
    """Replace the code of the mutant's function wherever it is referenced."""
    before = compile(mutant.path.read_text(), str(mutant.path), "exec")
    tree = ast.parse(mutant.path.read_text())
    turn(turnable(tree)[mutant.index])
    after = compile(ast.fix_missing_locations(tree), str(mutant.path), "exec")
    wrong = dict(changed(before, after))
    for function in gc.get_objects():
        if type(function) is types.FunctionType and function.__code__.co_filename == str(mutant.path):
            code = function.__code__
            if (code.co_qualname, code.co_firstlineno) in wrong:
                function.__code__ = wrong[code.co_qualname, code.co_firstlineno]


def changed(
    before: types.CodeType, after: types.CodeType
) -> Iterator[tuple[tuple[str, int], types.CodeType]]:
    """The functions of a module whose code differs, by name and line."""
    pairs = zip(nested(before), nested(after), strict=True)
    for old, new in pairs:
        if old != new:
            yield (new.co_qualname, new.co_firstlineno), new
            yield from changed(old, new)


def nested(code: types.CodeType) -> list[types.CodeType]:
    """The code objects directly inside another, including class bodies."""
    return [each for each in code.co_consts if isinstance(each, types.CodeType)]


if __name__ == "__main__":
    sys.exit(main())
