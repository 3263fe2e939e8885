"""YAML whose every complaint names a line."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from slc_ops.base.errors import SettingsError


@dataclass(frozen=True)
class Block:
    """One entry of the file: its name, its values, and where they stand."""

    name: str
    line: int
    value: Any
    node: yaml.Node

    def line_of(self, location: tuple[int | str, ...]) -> int:
        """The line of a value inside the entry, or of the nearest thing around it."""
        line, node = self.line, self.node
        for step in location:
            found = child(node, step)
            if found is not None:  # steps that are not in the file (the kind of a union) are passed over
                line, node = found
        return line


def read_blocks(path: Path) -> list[Block]:
    """The entries under ``deployments:``; a file that is no such YAML is an error as a whole."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingsError(f"cannot read the deployments file {path}: {reason}") from None
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise SettingsError(
            f"{where}: this is not YAML: {getattr(error, 'problem', None) or error}"
        ) from None
    refuse_duplicates(path, root)
    if (
        not isinstance(values, dict)
        or set(values) != {"deployments"}
        or not isinstance(root, yaml.MappingNode)
    ):
        raise SettingsError(
            f"{path}:1: expected one key 'deployments' at the top, with one entry per deployment"
        )
    entries = root.value[0][1]
    if not isinstance(entries, yaml.MappingNode):
        if values["deployments"] is None:
            return []
        raise SettingsError(
            f"{path}:{line_of(root.value[0][0])}: 'deployments' must map names to deployments"
        )
    by_name = {str(name): value for name, value in values["deployments"].items()}
    return [
        Block(str(key.value), line_of(key), by_name.get(str(key.value)), node) for key, node in entries.value
    ]


def child(node: yaml.Node, step: int | str) -> tuple[int, yaml.Node] | None:
    """The line and node that ``step`` leads to."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return line_of(key), value
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return line_of(node.value[step]), node.value[step]
    return None


def refuse_duplicates(path: Path, root: yaml.Node | None) -> None:
    """YAML lets the last of two equal keys win in silence; here that is an error."""
    waiting = [root]
    visited: set[int] = set()  # anchors may make the tree a graph
    while waiting:
        node = waiting.pop()
        if node is None or id(node) in visited:
            continue
        visited.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif isinstance(node, yaml.MappingNode):
            seen: dict[str, int] = {}
            for key, value in node.value:
                if key.value in seen:
                    first = seen[key.value]
                    raise SettingsError(
                        f"{path}:{line_of(key)}: the key {key.value!r} is already in line {first}"
                    )
                seen[key.value] = line_of(key)
                waiting.append(value)


def line_of(node: yaml.Node) -> int:
    """Lines as editors count them."""
    line: int = node.start_mark.line + 1
    return line
