"""Convert between the ledger's rows and its value objects."""

from dataclasses import fields
from typing import Any

from sqlalchemy import Row

from slc_ops.base.window import Window
from slc_ops.registry.publication import ChampionChange, Version


def version_row(version: Version) -> dict[str, Any]:
    """Return a version as values of ``slc_publication``."""
    values = {field.name: getattr(version, field.name) for field in fields(version)}
    values["version"] = values.pop("number")
    return _split_window(values)


def version_of(row: Row[Any]) -> Version:
    """Return a row of ``slc_publication`` as a version."""
    values = _join_window(dict(row._mapping))
    return Version(number=values.pop("version"), **values)


def change_row(change: ChampionChange) -> dict[str, Any]:
    """Return a change as values of ``slc_move``."""
    return _split_window({field.name: getattr(change, field.name) for field in fields(change)})


def change_of(row: Row[Any]) -> ChampionChange:
    """Return a row of ``slc_move`` as a change."""
    return ChampionChange(**_join_window(dict(row._mapping)))


def _split_window(values: dict[str, Any]) -> dict[str, Any]:
    window: Window = values.pop("window")
    return values | {"window_start": window.start, "window_end": window.end}


def _join_window(values: dict[str, Any]) -> dict[str, Any]:
    return values | {"window": Window(values.pop("window_start"), values.pop("window_end"))}
