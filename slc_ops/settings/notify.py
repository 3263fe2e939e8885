"""The ``notify`` block: who hears of stops, rejections and rollbacks."""

from typing import Any, Literal

from pydantic import Field

from slc_ops.settings.part import Part


class Notifier(Part):
    """An Airflow notifier, by its import path, with the arguments of its constructor (Jinja, no secrets)."""

    path: str = Field(
        pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$", description="for example the SMTP notifier's class"
    )
    arguments: dict[str, Any] = Field(default_factory=dict, description="arguments of its constructor")


class Notify(Part):
    """Who hears of it. Addresses and tokens live in Airflow connections, never here."""

    events: tuple[Literal["stop", "reject", "rollback", "retired", "late"], ...] = Field(
        default=("stop", "reject", "rollback", "retired", "late"), description="what is told"
    )
    webhook: str | None = Field(default=None, description="Airflow connection that gets the event as JSON")
    notifiers: tuple[Notifier, ...] = Field(
        default=(), description="Airflow notifiers: `{path: import.path.of.Class, arguments: {…}}`"
    )
