"""The code version: a name that changes with every formula, not with comments."""

import ast
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from slc_ops import __version__
from slc_ops.base.digests import digest_json

PACKAGE = Path(__file__).parent.parent

DECIDING_CODE = (
    "base/additive.py", "base/buffers.py", "base/code_version.py", "base/digests.py", "base/files.py",
    "base/hashing.py", "base/ids.py", "base/json_form.py", "base/methods.py", "base/parquet.py",
    "base/tabular.py", "base/utf8.py", "base/window.py",
    "settings/blocks.py", "settings/deployments.py", "settings/expectations.py", "settings/quality.py",
    "settings/sources.py", "settings/window.py",
    "intake", "rows", "engines", "quality", "numerics", "parameters", "methods", "evidence",
    "demo/population.py",
    "refresh/backbone.py", "refresh/champion.py", "refresh/evidence.py", "refresh/files.py",
    "refresh/versions.py", "refresh/fitting.py", "refresh/pipeline.py",
    "refresh/plan.py", "refresh/publishing.py", "refresh/reuse.py", "refresh/window_rules.py",
    "refresh/windows.py",
)  # fmt: skip
"""Packages and modules of ``slc_ops`` that determine which rows are used and which results they give."""

DECIDING_LIBRARIES = ("numpy", "pyarrow", "scipy", "great_expectations")
"""Libraries for sums and solvers, reading of files, quantiles of intervals, validation."""


@cache
def code_version() -> str:
    """Return the release and a digest of the code and libraries that determine results.

    Two installations with the same code version produce the same bytes. A changed formula gives a new version
    even between releases, and never reads stored results of another formula. Comments, docstrings and layout
    do not count: correcting a typo does not register models again.
    """
    said = [
        f"{source.relative_to(PACKAGE).as_posix()}\0" + "\0".join(_syntax(ast.parse(source.read_bytes()), []))
        for source in deciding_files()
    ]
    libraries = [f"{library} {library_version(library)}" for library in DECIDING_LIBRARIES]
    return f"{__version__}+{digest_json([said, libraries])[:12]}"


def _syntax(node: object, words: list[str]) -> list[str]:
    """Append a syntax tree as words, without strings that are statements (docstrings).

    Empty fields are omitted, because they differ between releases of Python.
    """
    if isinstance(node, ast.AST):
        words.append(type(node).__name__)
        for name in node._fields:
            value = getattr(node, name, None)
            if value is not None and value != []:
                words.append(name)
                _syntax(value, words)
        words.append(".")
    elif isinstance(node, list):
        words.append("[")
        for each in node:
            if not (isinstance(each, ast.Expr) and _is_text(each.value)):
                _syntax(each, words)
        words.append("]")
    else:
        words.append(repr(node))
    return words


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def deciding_files() -> list[Path]:
    """Return the source files that the code version covers, in a fixed order."""
    named = [PACKAGE / name for name in DECIDING_CODE]
    # A package that is not installed (an engine, for example) has no files.
    return sorted(file for path in named for file in ([path] if path.suffix else path.rglob("*.py")))


def library_version(name: str) -> str:
    """Return the installed version of a library, or "absent": a serving host does not need all of them."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"
