"""Named connections: addresses with credentials, stored outside of the deployments file.

A provider registers a lookup function under the entry point group ``slc_ops.connections``.
:mod:`slc_ops.airflow.connections` registers Airflow's; a team can register one for its own vault.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from slc_ops.base.errors import SettingsError

GROUP = "slc_ops.connections"


@dataclass(frozen=True)
class Connection:
    """An address with credentials; ``schema`` is a database's name, or a path.

    ``extra`` has fields of the connection type: the account of a warehouse, the project of a cloud.
    """

    conn_id: str
    conn_type: str
    host: str | None = None
    port: int | None = None
    schema: str | None = None
    login: str | None = None
    password: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:  # keeps credentials out of logs
        return f"Connection({self.conn_id!r}, {self.conn_type!r})"


def find_connection(name: str) -> Connection | None:
    """Return the connection of that name; None when no provider has it.

    Raises :class:`~slc_ops.base.errors.SettingsError` when no provider is installed.
    """
    lookups = _lookups()
    if not lookups:
        raise SettingsError(
            f"the connection {name!r} cannot be looked up: nothing here keeps connections; install "
            "slc-ops[airflow], or name an environment variable instead"
        )
    return next((found for lookup in lookups if (found := lookup(name)) is not None), None)


@cache
def _lookups() -> tuple[Callable[[str], Connection | None], ...]:
    return tuple(entry.load() for entry in sorted(entry_points(group=GROUP), key=lambda each: each.name))
