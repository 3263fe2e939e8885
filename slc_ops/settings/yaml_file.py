"""YAML whose every complaint names a line, and whose values can only break their own entry.

The file is looked at before anything is built from it: its size, its nesting and its aliases are bounded, so
that a bomb costs milliseconds. Each entry is then built apart: one impossible date is one broken entry.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from slc_ops.base.errors import SettingsError

MAX_BYTES = 1 << 20
MAX_NODES = 50_000
MAX_DEPTH = 20
MAX_ALIASES = 1_000
MAX_ENTRY_NODES = 5_000
"""Values of one entry with its aliases written out; a large entry has about a hundred."""
NO_VALUE = (ValueError, OverflowError, TypeError, AttributeError, LookupError)
"""PyYAML builds dates and numbers with Python's own constructors, and lets whatever they raise through."""


@dataclass(frozen=True)
class Block:
    """One entry of the file: its name, its values, and where they stand; or line and text of its fault."""

    name: str
    line: int
    value: Any
    node: yaml.Node
    fault: tuple[int, str] | None = None

    def line_of(self, location: tuple[int | str, ...]) -> int:
        """The line of a value inside the entry, or of the nearest thing around it."""
        line, node = self.line, self.node
        for step in location:
            found = child(node, step)
            if found is not None:  # steps that are not in the file (the kind of a union) are passed over
                line, node = found
        return line


class Fault(Exception):
    """Something wrong inside one entry."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


def read_blocks(path: Path) -> list[Block]:
    """The entries under ``deployments:``; a file that is no such YAML is an error as a whole."""
    root = compose(path, read_text(path))
    top = root.value if isinstance(root, yaml.MappingNode) else []
    if len(top) != 1 or top[0][0].value != "deployments":
        raise SettingsError(
            f"{path}:1: expected one key 'deployments' at the top, with one entry per deployment"
        )
    key, entries = top[0]
    if isinstance(entries, yaml.ScalarNode) and entries.tag == "tag:yaml.org,2002:null":
        return []
    if not isinstance(entries, yaml.MappingNode):
        raise SettingsError(f"{path}:{line_of(key)}: 'deployments' must map names to deployments")
    lines = lines_of_names(entries)
    once = {text_of(name): (name, node) for name, node in entries.value}
    # All entries are looked at before one is built: building writes merged keys into shared nodes.
    faults = [fault_of(name, node, lines) for name, node in once.values()]
    return [block(*entry, fault) for entry, fault in zip(once.values(), faults, strict=True)]


def read_text(path: Path) -> str:
    """The text of the file, if it is one and of a sensible size."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingsError(
            f"cannot read the deployments file {path}: {reason} (SLC_OPS_DEPLOYMENTS says where to look)"
        ) from None
    if len(data) > MAX_BYTES:
        raise SettingsError(f"cannot read the deployments file {path}: it has more than {MAX_BYTES >> 20} MB")
    return text


def compose(path: Path, text: str) -> yaml.Node | None:
    """The tree of the file; refused when it is not YAML, or larger or deeper than any deployments file."""
    try:
        check_size(path, text)
        root: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        raise SettingsError(f"{where}: this is not YAML: {problem}") from None
    return root


def check_size(path: Path, text: str) -> None:
    """Count nodes, aliases and depth in the stream of events, before a tree is built by recursion."""
    nodes = aliases = depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        nodes += isinstance(event, yaml.NodeEvent)
        aliases += isinstance(event, yaml.AliasEvent)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        for what, found, most in (
            ("values", nodes, MAX_NODES), ("aliases", aliases, MAX_ALIASES), ("levels", depth, MAX_DEPTH),
        ):  # fmt: skip
            if found > most:
                raise SettingsError(
                    f"{path}:{event.start_mark.line + 1}: a deployments file has at most {most:,} {what}; "
                    "this one has more"
                )


def lines_of_names(entries: yaml.MappingNode) -> dict[str, list[int]]:
    """The lines in which each name stands."""
    lines: dict[str, list[int]] = {}
    for key, _ in entries.value:
        lines.setdefault(text_of(key), []).append(line_of(key))
    return lines


def fault_of(key: yaml.Node, node: yaml.Node, lines: dict[str, list[int]]) -> tuple[int, str] | None:
    """What can be said against an entry before it is built."""
    if not isinstance(key, yaml.ScalarNode):
        return line_of(key), "a deployment's name must be plain text"
    if len(at := lines[key.value]) > 1:  # which of them is meant, nobody can say: none is used
        return at[1], f"the key {key.value!r} is already in line {at[0]}"
    try:
        expanded_size(node, ())
        refuse_duplicates(node)
    except Fault as fault:
        return fault.line, f"deployments.{key.value}: {fault}"
    return None


def block(key: yaml.Node, node: yaml.Node, fault: tuple[int, str] | None) -> Block:
    """The entry with its values."""
    value = None
    if fault is None:
        try:
            value = construct(node)
        except Fault as found:
            fault = found.line, f"deployments.{text_of(key)}: {found}"
    return Block(text_of(key), line_of(key), value, node, fault)


def construct(node: yaml.Node) -> Any:
    """The values of a node; what YAML cannot make of a text (30 February) is a fault with its line."""
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_document(node)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = " ".join(str(getattr(error, "problem", None) or error).split())
        raise Fault(mark.line + 1 if mark else line_of(node), problem) from None
    except NO_VALUE as error:
        raise Fault(*culprit(node, error)) from None
    finally:
        loader.dispose()


def culprit(node: yaml.Node, error: Exception) -> tuple[int, str]:
    """The line and the words for the value that cannot be built: the first that fails by itself."""
    for scalar in scalars(node):
        loader = yaml.SafeLoader("")
        try:
            loader.construct_document(scalar)
        except NO_VALUE as found:
            shown = (
                repr(scalar.value)
                if len(scalar.value) <= 60
                else f"a value of {len(scalar.value)} characters"
            )
            return line_of(scalar), f"{shown} cannot be read: {found}"
        finally:
            loader.dispose()
    return line_of(node), f"cannot be read: {error}"


def scalars(node: yaml.Node) -> Iterator[yaml.ScalarNode]:
    """Every scalar below a node (without cycles: these are refused before)."""
    if isinstance(node, yaml.ScalarNode):
        yield node
    elif isinstance(node, yaml.SequenceNode):
        for each in node.value:
            yield from scalars(each)
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from scalars(key)
            yield from scalars(value)


def expanded_size(node: yaml.Node, above: tuple[int, ...], sizes: dict[int, int] | None = None) -> int:
    """The number of values below a node with its aliases written out; bounded, and without cycles."""
    sizes = {} if sizes is None else sizes
    if id(node) in above:
        raise Fault(line_of(node), "refers to itself")
    if len(above) > MAX_DEPTH:
        raise Fault(line_of(node), f"has more than {MAX_DEPTH} levels with its aliases written out")
    if id(node) not in sizes:
        below = [node.value] if isinstance(node, yaml.ScalarNode) else node.value
        parts = [part for each in below for part in (each if isinstance(each, tuple) else (each,))]
        inner = (*above, id(node))
        sizes[id(node)] = 1 + sum(
            expanded_size(part, inner, sizes) for part in parts if isinstance(part, yaml.Node)
        )
        if sizes[id(node)] > MAX_ENTRY_NODES:
            raise Fault(
                line_of(node), f"has more than {MAX_ENTRY_NODES:,} values with its aliases written out"
            )
    return sizes[id(node)]


def child(node: yaml.Node, step: int | str) -> tuple[int, yaml.Node] | None:
    """The line and node that ``step`` leads to."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return line_of(key), value
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return line_of(node.value[step]), node.value[step]
    return None


def refuse_duplicates(root: yaml.Node) -> None:
    """YAML lets the last of two equal keys win in silence; here that is a fault."""
    waiting = [root]
    visited: set[int] = set()  # anchors may make the tree a graph
    while waiting:
        node = waiting.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif isinstance(node, yaml.MappingNode):
            seen: dict[str, int] = {}
            for key, value in node.value:
                if text_of(key) in seen:
                    raise Fault(
                        line_of(key), f"the key {text_of(key)!r} is already in line {seen[text_of(key)]}"
                    )
                seen[text_of(key)] = line_of(key)
                waiting.append(value)


def text_of(key: yaml.Node) -> str:
    """A key as it is written; one that is no text is named by its line."""
    return str(key.value) if isinstance(key, yaml.ScalarNode) else f"(line {line_of(key)})"


def line_of(node: yaml.Node) -> int:
    """Lines as editors count them."""
    line: int = node.start_mark.line + 1
    return line
