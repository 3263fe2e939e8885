"""Which code works out results: a name that changes whenever a formula of it does, not a comment."""

import ast
import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from slc_ops import __version__

PACKAGE = Path(__file__).parent.parent

DECIDING_CODE = (
    "base/buffers.py", "base/code_version.py", "base/files.py", "base/hashing.py", "base/ids.py",
    "base/json_form.py", "base/methods.py", "base/parquet.py", "base/tabular.py", "base/utf8.py",
    "base/window.py",
    "settings/blocks.py", "settings/deployments.py", "settings/expectations.py", "settings/quality.py",
    "settings/sources.py", "settings/window.py",
    "intake", "rows", "engines", "quality", "numerics", "parameters", "methods", "evidence",
    "demo/population.py", "demo/simulator.py",
    "refresh/backbone.py", "refresh/champion.py", "refresh/evidence.py", "refresh/files.py",
    "refresh/versions.py", "refresh/fitting.py", "refresh/kept_fits.py", "refresh/pipeline.py",
    "refresh/plan.py", "refresh/publishing.py", "refresh/score_cache.py", "refresh/window_rules.py",
    "refresh/windows.py",
)  # fmt: skip
"""What decides which rows are used and what is worked out from them: packages and modules of ``slc_ops``."""

DECIDING_LIBRARIES = ("numpy", "pyarrow", "scipy", "great_expectations")
"""Sums and solvers, reading of files, quantiles of intervals, validation."""


@cache
def code_version() -> str:
    """The release and a digest of the code and libraries that decide results.

    Two installations with the same code version give the same bytes; a changed formula is a new version even
    between releases, and never reads what another formula stored. Comments, docstrings and layout are no part
    of it: correcting a typo registers nobody's model again.
    """
    digest = hashlib.sha256()
    for source in deciding_files():
        said = "\0".join(_syntax(ast.parse(source.read_bytes()), []))
        digest.update(f"{source.relative_to(PACKAGE).as_posix()}\0{said}\0".encode())
    for library in DECIDING_LIBRARIES:
        digest.update(f"{library} {library_version(library)}\0".encode())
    return f"{__version__}+{digest.hexdigest()[:12]}"


def _syntax(node: object, words: list[str]) -> list[str]:
    """Append a syntax tree as words, without strings that are statements (docstrings).

    Empty fields are left out, because releases of Python differ in which ones there are.
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
    """The source files that the code version covers, in a fixed order."""
    named = [PACKAGE / name for name in DECIDING_CODE]
    # Of a package (an engine, for example) that is not part of this installation there are none.
    return sorted(file for path in named for file in ([path] if path.suffix else path.rglob("*.py")))


def library_version(name: str) -> str:
    """The installed version of a library; a host that only serves need not have all of them."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "absent"
