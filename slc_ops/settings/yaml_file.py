"""YAML with line numbers in every error; a bad value breaks only its own entry.

PyYAML reads the file. Size and depth are limited while the tree is composed, and again per entry with
expanded aliases before it is constructed, so that a YAML bomb costs milliseconds. Each entry is constructed
separately: one impossible date is one invalid entry.
"""

from pathlib import Path
from typing import Any

import yaml

from slc_ops.base.errors import SettingsError

MAX_BYTES = 1 << 20
MAX_NODES = 50_000
MAX_DEPTH = 20
MAX_ENTRY_NODES = 5_000
"""Values of one entry with expanded aliases; a large entry has about a hundred."""
NO_VALUE = (ValueError, OverflowError, TypeError, AttributeError, LookupError)
"""Errors of Python's date and number constructors, which PyYAML does not catch."""


Entry = tuple[yaml.Node, yaml.Node]
"""The key and the value of an entry."""


class Fault(Exception):
    """An error with its line."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line


class Reader(yaml.SafeLoader):
    """PyYAML's safe loader with limits on size and depth."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.nodes = self.depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose one node; raise :class:`Fault` beyond the limits."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call] # PyYAML
        self.nodes += 1
        self.depth += 1
        if self.nodes > MAX_NODES or self.depth > MAX_DEPTH:
            most = f"{MAX_DEPTH} levels" if self.depth > MAX_DEPTH else f"{MAX_NODES:,} values"
            text = f"a deployments file has at most {most}; this one has more"
            raise Fault(event.start_mark.line + 1, text)
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Return the value of a node; raise :class:`Fault` for an impossible value (30 February)."""
        try:
            return super().construct_object(node, deep)
        except NO_VALUE as error:
            text = str(node.value)
            shown = repr(text) if len(text) <= 60 else f"a value of {len(text)} characters"
            raise Fault(line_of(node), f"{shown} cannot be read: {error}") from None


def read_entries(path: Path) -> dict[str, list[Entry]]:
    """Return the entries under ``deployments:`` by name; raise for a file without this structure."""
    text = read_text(path)
    try:
        root = Reader(text).get_single_node()
    except Fault as fault:
        raise SettingsError(f"{path}:{fault.line}: {fault}") from None
    except yaml.YAMLError as error:
        line, problem = complaint(error)
        where = f"{path}:{line}" if line else str(path)
        raise SettingsError(f"{where}: this is not YAML: {problem}") from None
    top = root.value if isinstance(root, yaml.MappingNode) else []
    if len(top) != 1 or top[0][0].value != "deployments":
        raise SettingsError(
            f"{path}:1: expected one key 'deployments' at the top, with one entry per deployment"
        )
    key, entries = top[0]
    if isinstance(entries, yaml.ScalarNode) and entries.tag == "tag:yaml.org,2002:null":
        return {}
    if not isinstance(entries, yaml.MappingNode):
        raise SettingsError(f"{path}:{line_of(key)}: 'deployments' must map names to deployments")
    found: dict[str, list[Entry]] = {}
    for name, value in entries.value:
        found.setdefault(text_of(name), []).append((name, value))
    return found


def read_text(path: Path) -> str:
    """Return the text of the file; raise if it is unreadable, not UTF-8 or too large."""
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


def value_of(name: str, found: list[Entry]) -> Any:
    """Return the value of an entry; raise its first :class:`Fault`."""
    key, node = found[0]
    if not isinstance(key, yaml.ScalarNode):
        raise Fault(line_of(key), "a deployment's name must be plain text")
    if len(found) > 1:  # ambiguous: neither is used
        raise Fault(line_of(found[1][0]), f"the key {name!r} is already in line {line_of(key)}")
    try:
        refuse(node)
        return Reader("").construct_document(node)
    except Fault as fault:
        raise Fault(fault.line, f"deployments.{name}: {fault}") from None
    except yaml.YAMLError as error:
        line, problem = complaint(error)
        raise Fault(line or line_of(node), f"deployments.{name}: {problem}") from None


def refuse(entry: yaml.Node) -> None:
    """Raise the faults of an entry that are visible before construction.

    YAML silently takes the last of two equal keys, and an alias may contain itself or expand without limit.
    """
    values = 0

    def walk(node: yaml.Node, above: tuple[yaml.Node, ...]) -> None:
        nonlocal values
        values += 1
        if any(node is each for each in above):
            raise Fault(line_of(entry), "refers to itself")
        if len(above) >= MAX_DEPTH or values > MAX_ENTRY_NODES:
            most = f"{MAX_DEPTH} levels" if len(above) >= MAX_DEPTH else f"{MAX_ENTRY_NODES:,} values"
            raise Fault(line_of(entry), f"has more than {most} with its aliases written out")
        if isinstance(node, yaml.MappingNode):
            seen: dict[str, int] = {}
            for key, value in node.value:
                name = text_of(key)
                if name in seen:
                    raise Fault(line_of(key), f"the key {name!r} is already in line {seen[name]}")
                seen[name] = line_of(key)
                walk(key, (*above, node))
                walk(value, (*above, node))
        elif isinstance(node, yaml.SequenceNode):
            for each in node.value:
                walk(each, (*above, node))

    walk(entry, ())


def complaint(error: yaml.YAMLError) -> tuple[int | None, str]:
    """Return the line of PyYAML's error, if it has one, and its text on one line."""
    mark = getattr(error, "problem_mark", None)
    problem = " ".join(str(getattr(error, "problem", None) or error).split())
    return (mark.line + 1 if mark else None), problem


def line_at(entry: Entry, location: tuple[int | str, ...]) -> int:
    """Return the line of a value inside an entry, or of its nearest ancestor."""
    key, node = entry
    for step in location:
        inside: dict[int | str, Entry] = {}
        if isinstance(node, yaml.MappingNode):
            inside = {text_of(name): (name, value) for name, value in node.value}
        elif isinstance(node, yaml.SequenceNode):
            inside = {position: (value, value) for position, value in enumerate(node.value)}
        if step in inside:  # skip steps that are not in the file (the kind of a union)
            key, node = inside[step]
    return line_of(key)


def text_of(key: yaml.Node) -> str:
    """Return the text of a key; for a key that is not a scalar, its line."""
    return str(key.value) if isinstance(key, yaml.ScalarNode) else f"(line {line_of(key)})"


def line_of(node: yaml.Node) -> int:
    """Return the line of a node, counted from 1."""
    line: int = node.start_mark.line + 1
    return line
