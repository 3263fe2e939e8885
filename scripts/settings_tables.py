"""The settings tables of ``docs/settings.md`` and ``docs/sources.md``, written from the fields themselves.

``python scripts/settings_tables.py PAGE`` (``make docs-tables``) puts each table between its markers;
``--check`` only reports whether the file is up to date.
"""

import re
import sys
import types
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from slc_ops.base.errors import SettingsError
from slc_ops.settings.blocks import Decision, Forget, Notify
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.environment import GROUPS
from slc_ops.settings.expectations import OwnExpectation
from slc_ops.settings.quality import Band, Limit, Quality
from slc_ops.settings.sources import SOURCES, Mapped
from slc_ops.settings.window import Schedule, WindowGrid

Row = tuple[str, ...]
PLAIN: dict[Any, str] = {
    bool: "`true` or `false`",
    int: "whole number",
    float: "number",
    str: "text",
    SecretStr: "text",
    Path: "path",
    date: "date",
    timedelta: "duration such as `12h` or `3d`",
    Schedule: "cron expression, or block",
    datetime: "timestamp",
    Limit: "`{warn, stop}`, numbers",
    Band: "`{warn, stop}`, each `[low, high]`",
}
SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


BEGIN = "<!-- begin table: {} (written by make docs-tables) -->"
END = "<!-- end table: {} -->"
MANY = 6
"""A choice of more names than this is not written out: the field's description says where they are."""


def type_of(annotation: Any, metadata: Iterable[Any] = ()) -> str:
    """A type for people, with its bounds.

    >>> from pydantic import Field
    >>> type_of(Annotated[int, Field(ge=1)]), type_of(float | None), type_of(tuple[float, float])
    ('whole number ≥ 1', 'number', '`[low, high]`')
    >>> type_of(Literal["auto", "manual", "never"])
    '`auto`, `manual` or `never`'
    """
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        return type_of(inner, [*more, *metadata])
    if isinstance(annotation, type) and annotation in PLAIN:
        return " ".join([PLAIN[annotation], ", ".join(_bounds(metadata))]).strip()
    arguments = [each for each in get_args(annotation) if each is not type(None)]
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        kinds = [type_of(each, metadata) for each in arguments]
        return "block" if "block" in kinds else " or ".join(kinds)
    if origin is Literal:
        return _choice(arguments)
    if origin is tuple and Ellipsis in arguments:
        return f"list, each {type_of(arguments[0])}"
    return {tuple: "`[low, high]`", dict: "mapping"}.get(origin, "block")


def _choice(names: list[str]) -> str:
    if len(names) > MANY:
        return PLAIN[str]
    *first, last = [f"`{each}`" for each in names]
    return f"{', '.join(first)} or {last}" if first else last


def _bounds(metadata: Iterable[Any]) -> list[str]:
    flat = [part for each in metadata for part in (each.metadata if isinstance(each, FieldInfo) else [each])]
    found = []
    for each in flat:
        for name, sign in SIGNS.items():
            if (bound := getattr(each, name, None)) is not None:
                found.append(f"{sign} {bound:,}" if isinstance(bound, int) else f"{sign} {bound}")
    return found


def default_of(field: FieldInfo) -> str:
    """A default as written in a file: ``required`` without one, ``unset`` for none."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or (isinstance(value, SecretStr) and not value.get_secret_value()):
        return "unset"
    if isinstance(value, (Limit, Band)):
        bounds = [(name, bound) for name, bound in value if bound is not None]
        shown = [f"{name} {list(b) if isinstance(b, tuple) else b}" for name, b in bounds]
        return f"`{', '.join(shown)}`"
    if isinstance(value, BaseModel):
        return "below"
    if isinstance(value, tuple):
        return f"`[{', '.join(str(each) for each in value)}]`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def rows_of(part: type[BaseModel], *, by_alias: bool = False) -> Iterable[tuple[str, FieldInfo, Row]]:
    """Name, field and the cells default, type and meaning of every setting."""
    for name, field in part.model_fields.items():
        shown = str(field.validation_alias) if by_alias else name
        if field.description is not None:
            cells = (default_of(field), type_of(field.annotation, field.metadata), field.description)
            yield shown, field, cells


def block_table(head: str, part: type[BaseModel]) -> str:
    """The table of a block of the deployments file."""
    return _table((f"`{head}`", "default", "type", "meaning"), _named(rows_of(part)))


def source_tables() -> dict[str, str]:
    """A table of the common keys of sources, then one of each kind."""
    head = ("`source.`", "default", "type", "meaning")
    found = {"source": _table(head, _named(rows_of(Mapped)))}
    for source in SOURCES:
        rows = [row for row in rows_of(source) if row[0] not in Mapped.model_fields]
        found[f"source {source.model_fields['kind'].default}"] = _table(head, _named(rows))
    return found


def variables_table() -> str:
    """The variables that slc_ops reads itself."""
    rows = [row for group in GROUPS for row in _named(rows_of(group, by_alias=True))]
    return _table(("variable", "default", "type", "meaning"), rows)


def _named(rows: Iterable[tuple[str, FieldInfo, Row]]) -> list[Row]:
    return [(f"`{name}`", *cells) for name, _, cells in rows]


def _table(head: Row, rows: Iterable[Row]) -> str:
    lines = [head, *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    first, *rest = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([first, "|" + "---|" * len(head), *rest])


def tables() -> dict[str, str]:
    """Every generated table by its name."""
    return {
        "variables": variables_table(),
        "deployment": block_table("deployments.<name>.", Deployment),
        "window": block_table("window.", WindowGrid),
        "schedule": block_table("schedule.", Schedule),
        "quality": block_table("quality.", Quality),
        "expectation": block_table("expectations[].", OwnExpectation),
        "forget": block_table("forget.", Forget),
        "decision": block_table("decision.", Decision),
        "notify": block_table("notify.", Notify),
        **source_tables(),
    }


def written(text: str, page: str = "settings.md") -> str:
    """The page with every table from the current fields; those of sources are in ``sources.md``.

    Raises :class:`~slc_ops.base.errors.SettingsError` if a table's markers are missing.
    """
    for name, table in tables().items():
        if name.startswith("source") != (page == "sources.md"):
            continue
        begin, end = BEGIN.format(name), END.format(name)
        pattern = re.compile(f"{re.escape(begin)}\n.*?{re.escape(end)}", re.DOTALL)
        if len(pattern.findall(text)) != 1:
            raise SettingsError(f"the page must have the markers of the table {name!r} once: {begin} … {end}")
        before, after = pattern.split(text)
        text = f"{before}{begin}\n\n{table}\n\n{end}{after}"
    return text


def main(arguments: list[str]) -> int:
    """Write the tables into a page, or report (``--check``) that it is outdated."""
    check, path = "--check" in arguments, Path(arguments[-1])
    before = path.read_text(encoding="utf-8")
    after = written(before, path.name)
    if check:
        return int(before != after)
    path.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
