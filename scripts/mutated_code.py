"""The mutants of scripts/mutants.py: which expressions are made wrong, how, and how one is put in place."""

import ast
import copy
import gc
import hashlib
import types
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
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
    lines: range
    """From the begin of the statement to the end of the expression."""
    line: int
    change: str
    place: str
    """File, function, expression and its count there: a change elsewhere leaves the sample as it is."""

    def draw(self, seed: int) -> bytes:
        """Return the seeded rank: the mutants with the lowest ones are the sample."""
        return hashlib.sha256(f"{seed} {self.place}".encode()).digest()

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.change}"


def sources(package: str) -> Iterator[Path]:
    """The files of a package that affect results."""
    for name in DECIDING[package]:
        yield from sorted((ROOT / name).rglob("*.py")) if (ROOT / name).is_dir() else [ROOT / name]


def mutants(package: str) -> Iterator[Mutant]:
    """All possible mutants."""
    for path in sources(package):
        tree = ast.parse(path.read_text())
        # Inner functions and statements come last and win.
        functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
        function = {id(node): each.name for each in functions for node in ast.walk(each)}
        statements = [each for each in ast.walk(tree) if isinstance(each, ast.stmt)]
        begin = {id(node): each.lineno for each in statements for node in ast.walk(each)}
        same: Counter[str] = Counter()
        for index, node in enumerate(turnable(tree)):
            before = ast.unparse(node)
            place = f"{path.relative_to(ROOT)} {function[id(node)]} {before}"
            same[place] += 1
            turn(node)
            change = f"{before} → {ast.unparse(node)}"[:120]
            lines = range(begin[id(node)], (node.end_lineno or node.lineno) + 1)
            yield Mutant(package, path, index, lines, node.lineno, change, f"{place} {same[place]}")


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


def put_in_place(mutant: Mutant) -> None:
    """Replace the code of the mutant's function wherever it is referenced."""
    before = compile(mutant.path.read_text(), str(mutant.path), "exec")
    tree = ast.parse(mutant.path.read_text())
    turn(turnable(tree)[mutant.index])
    after = compile(ast.fix_missing_locations(tree), str(mutant.path), "exec")
    wrong, replaced = dict(changed(before, after)), False
    for function in gc.get_objects():
        if type(function) is types.FunctionType and function.__code__.co_filename == str(mutant.path):
            code = function.__code__
            if (code.co_qualname, code.co_firstlineno) in wrong:
                function.__code__ = wrong[code.co_qualname, code.co_firstlineno]
                replaced = True
    if not replaced:
        raise RuntimeError(f"no function has the code of {mutant}")


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
