"""The page's path to the code that promotes a version: its functions exist, and it is short."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Why was this version promoted?")[2].partition("\n## ")[0]


def named() -> dict[Path, set[str]]:
    """The functions in the table, by file."""
    found: dict[Path, set[str]] = {}
    for row in (line for line in SECTION.splitlines() if "`.py" in line or ".py`:" in line):
        read = row.split("|")[2]
        path, *functions = re.findall(r"`([^`]+)`", read)
        found.setdefault(ROOT / "slc_ops" / path, set()).update(functions)
    return found


def test_every_named_function_and_class_exists() -> None:
    assert len(named()) == 10
    for path, functions in named().items():
        defined = set(re.findall(r"^(?:def|class) (\w+)", path.read_text(encoding="utf-8"), flags=re.M))
        assert functions <= defined, path


def test_the_named_functions_have_at_most_2000_lines() -> None:
    """The named functions and those of their modules that they call."""
    read = 0
    for path, functions in named().items():
        source = path.read_text(encoding="utf-8")
        tops = ast.parse(source).body
        known = {each.name: each for each in tops if isinstance(each, ast.FunctionDef | ast.ClassDef)}
        wanted, seen = set(functions), set()
        while wanted:
            function = known[wanted.pop()]
            seen.add(function.name)
            called = {each.id for each in ast.walk(function) if isinstance(each, ast.Name)}
            wanted |= (called & known.keys()) - seen
        read += sum((known[name].end_lineno or 0) - known[name].lineno + 1 for name in seen)
    assert 200 < read <= 2000
