"""Between the ledger's rows and its value objects."""

from dataclasses import fields
from typing import Any

from sqlalchemy import Row

from slc_ops.base.window import Window
from slc_ops.registry.publication import Move, Version


def version_row(version: Version) -> dict[str, Any]:
    """A version as values of ``slc_publication``."""
    values = {field.name: getattr(version, field.name) for field in fields(version)}
    values["version"] = values.pop("number")
    return _split_window(values)


def version_of(row: Row[Any]) -> Version:
    """A row of ``slc_publication`` as a version."""
    values = _join_window(dict(row._mapping))
    return Version(number=values.pop("version"), **values)


def move_row(move: Move) -> dict[str, Any]:
    """A move as values of ``slc_move``."""
    return _split_window({field.name: getattr(move, field.name) for field in fields(move)})


def move_of(row: Row[Any]) -> Move:
    """A row of ``slc_move`` as a move."""
    return Move(**_join_window(dict(row._mapping)))


def _split_window(values: dict[str, Any]) -> dict[str, Any]:
    window: Window = values.pop("window")
    return values | {"window_start": window.start, "window_end": window.end}


def _join_window(values: dict[str, Any]) -> dict[str, Any]:
    return values | {"window": Window(values.pop("window_start"), values.pop("window_end"))}
