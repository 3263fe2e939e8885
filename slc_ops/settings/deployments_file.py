"""Read the deployments file. An invalid entry does not affect the others."""

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from slc_ops.base.errors import SettingsError

WHERE = "SLC_OPS_DEPLOYMENTS to another file or folder"

if TYPE_CHECKING:
    from slc_ops.settings.deployments import Deployment
    from slc_ops.settings.yaml_file import Block


@dataclass(frozen=True)
class BrokenEntry:
    """An invalid entry of the deployments file, with the reasons."""

    name: str
    path: Path
    line: int
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}: " if self.line else ""  # an error of the whole file names the file
        return f"{where}{'; '.join(self.reasons)}"


def load_deployments(path: Path) -> "dict[str, Deployment]":
    """Return all deployments of a file; raise for an invalid entry, with file, line and rule."""
    good, broken = read_deployments(path)
    if broken:
        raise SettingsError(str(broken[0]) + (f" (and {len(broken) - 1} more entries)" if broken[1:] else ""))
    return good


def read_deployments(path: Path) -> "tuple[dict[str, Deployment], list[BrokenEntry]]":
    """Return the valid deployments of a file or folder, and the invalid entries.

    A file that cannot be read or is not YAML raises; within a folder it is an invalid entry. A name that two
    files of a folder define is ambiguous and not used.
    """
    if not path.is_dir():
        return _read_file(path)
    files = sorted(each for each in path.iterdir() if each.suffix in (".yaml", ".yml"))
    if not files:
        raise SettingsError(
            f"the folder of deployments {path} holds no file *.yaml; write one, or set {WHERE}"
        )
    good: dict[str, Deployment] = {}
    broken: list[BrokenEntry] = []
    home: dict[str, Path] = {}
    for file in files:
        try:
            usable, faults = _read_file(file)
        except SettingsError as error:
            usable, faults = {}, [BrokenEntry(file.stem, file, 0, (str(error),))]
        broken += faults
        for name, deployment in usable.items():
            if name in home:
                reason = f"deployments.{name}: {home[name].name} has this name, too; rename one of them"
                broken.append(BrokenEntry(name, file, 1, (reason,)))
                good.pop(name, None)
                continue
            home[name] = file
            good[name] = deployment
    return good, broken


def _read_file(path: Path) -> "tuple[dict[str, Deployment], list[BrokenEntry]]":
    # Imported here, because the schema and its reader import each other.
    from slc_ops.settings.deployments import Deployments
    from slc_ops.settings.yaml_file import read_blocks

    good: dict[str, Deployment] = {}
    broken = []
    for block in read_blocks(path):
        if block.fault is not None:
            line, text = block.fault
            broken.append(BrokenEntry(block.name, path, line, (text,)))
            continue
        try:
            entry = Deployments.model_validate({"deployments": {block.name: block.value}})
            good |= entry.deployments
        except ValidationError as error:
            broken.append(_broken(path, block, error))
    return good, broken


def _broken(path: Path, block: "Block", error: ValidationError) -> BrokenEntry:
    problems = sorted(
        ((block.line_of(found["loc"][2:]), reason(found)) for found in error.errors()), key=lambda p: p[0]
    )
    line = problems[0][0]
    reasons = tuple(text if at == line else f"line {at}: {text}" for at, text in problems)
    return BrokenEntry(block.name, path, line, reasons)


def reason(found: Any) -> str:
    """Return one error of pydantic as a message: location, rule and value."""
    kind, location = found["type"], [str(step) for step in found["loc"] if step != "[key]"]
    where = ".".join(location)
    if kind == "extra_forbidden":  # not shown: the value may be a misplaced secret
        close = get_close_matches(location[-1], _keys(), n=1)
        return f"{where}: there is no such key" + (f"; did you mean {close[0]!r}?" if close else "")
    rule = found["msg"].removeprefix("Value error, ")
    if not isinstance(found["input"], (str, int, float, bool)) or kind == "value_error":
        return f"{where}: {rule}"
    shown = short(found["input"])
    return f"{where}: {rule}" + (f", found {shown}" if len(shown) <= 60 else "")


def short(value: str | int | float) -> str:
    """Return a value for a message; an integer beyond 10³⁰ is described by its size.

    >>> short("x"), short(10**400)
    ("'x'", 'an integer of 1329 bits')
    """
    return (
        f"an integer of {value.bit_length()} bits"
        if isinstance(value, int) and abs(value) > 10**30
        else repr(value)
    )


def _keys() -> set[str]:
    """Return every key that a block may have."""
    from slc_ops.settings.blocks import SettingsBlock

    keys, blocks = set[str](), [SettingsBlock]
    for block in blocks:
        keys.update(block.model_fields)
        blocks += block.__subclasses__()
    return keys
