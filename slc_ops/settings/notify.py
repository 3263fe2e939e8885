"""The ``notify`` block: who hears of stops, verdicts, questions and changes of the champion."""

from typing import Any, Literal, get_args

from pydantic import Field

from slc_ops.settings.part import Part


class Notifier(Part):
    """An Airflow notifier, by its import path, with the arguments of its constructor (Jinja, no secrets)."""

    path: str = Field(
        pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$", description="for example the SMTP notifier's class"
    )
    arguments: dict[str, Any] = Field(default_factory=dict, description="arguments of its constructor")


EventName = Literal[
    "stop", "reject", "approval", "promotion", "held", "rollback", "retired", "new_backbone", "late"
]
EVENTS: tuple[EventName, ...] = get_args(EventName)


class Notify(Part):
    """Who hears of it. Addresses and tokens live in Airflow connections, never here."""

    events: tuple[EventName, ...] = Field(default=EVENTS, description="what is told")
    webhook: str | None = Field(default=None, description="Airflow connection that gets the event as JSON")
    notifiers: tuple[Notifier, ...] = Field(
        default=(), description="Airflow notifiers: `{path: import.path.of.Class, arguments: {…}}`"
    )
