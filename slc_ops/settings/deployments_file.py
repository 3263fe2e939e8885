"""Read the deployments file. An invalid entry does not affect the others."""

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from slc_ops.base.errors import SettingsError

if TYPE_CHECKING:
    from slc_ops.settings.deployments import Deployment
    from slc_ops.settings.yaml_file import Entry


@dataclass(frozen=True)
class BrokenEntry:
    """An invalid entry of the deployments file; as text, its problem with file and line."""

    name: str
    problem: str

    def __str__(self) -> str:
        return self.problem


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
            f"the folder of deployments {path} holds no file *.yaml; write one, or set SLC_OPS_DEPLOYMENTS "
            "to another file or folder"
        )
    good: dict[str, Deployment] = {}
    broken: list[BrokenEntry] = []
    home: dict[str, Path] = {}
    for file in files:
        try:
            usable, faults = _read_file(file)
        except SettingsError as error:
            usable, faults = {}, [BrokenEntry(file.stem, str(error))]
        broken += faults
        for name, deployment in usable.items():
            if name in home:
                problem = f"deployments.{name}: {home[name].name} has this name, too; rename one of them"
                broken.append(BrokenEntry(name, f"{file}:1: {problem}"))
                good.pop(name, None)
                continue
            home[name] = file
            good[name] = deployment
    return good, broken


def _read_file(path: Path) -> "tuple[dict[str, Deployment], list[BrokenEntry]]":
    # Imported on use: commands without deployments need neither the schema nor PyYAML.
    from slc_ops.settings.deployments import Deployments
    from slc_ops.settings.yaml_file import Fault, read_entries, value_of

    good: dict[str, Deployment] = {}
    broken = []
    for name, found in read_entries(path).items():
        try:
            entry = Deployments.model_validate({"deployments": {name: value_of(name, found)}})
            good |= entry.deployments
        except Fault as fault:
            broken.append(BrokenEntry(name, f"{path}:{fault.line}: {fault}"))
        except ValidationError as error:
            broken.append(BrokenEntry(name, f"{path}:{_problem(found[0], error)}"))
    return good, broken


def _problem(entry: "Entry", error: ValidationError) -> str:
    """Return the line of the first problem, and all problems."""
    from slc_ops.settings.yaml_file import line_at

    found = [(line_at(entry, each["loc"][2:]), reason(each)) for each in error.errors()]
    problems = sorted(found, key=lambda problem: problem[0])
    line = problems[0][0]
    return f"{line}: " + "; ".join(text if at == line else f"line {at}: {text}" for at, text in problems)


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
