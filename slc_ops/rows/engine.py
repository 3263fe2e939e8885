"""The engine that processes the rows of a refresh: this process, or a cluster.

:class:`Engine` is the interface of an engine; further operations are methods of the logs that it opens
(:class:`slc_ops.rows.rows.Log`), and the kernels that run over their rows are the same. In the local engine,
the default, rows stream from Parquet into compact columns and threads pass over them. Another engine is a
package ``slc_ops.engines.<name>`` with a function ``open_engine()``; only :func:`engine_of` imports it.
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from slc_ops.base.errors import SettingsError
from slc_ops.base.parquet import digest_log
from slc_ops.intake.extract import Puller, pull
from slc_ops.intake.labels import changed_labels
from slc_ops.intake.writing import Watcher
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.reading import open_source
from slc_ops.rows.rows import Log
from slc_ops.rows.stored import Divide, divide, show


class Engine(Puller, Protocol):
    """Extracts windows, reads their rows and bytes where it runs, and opens them as logs."""

    def read(self, paths: Path | Sequence[Path], items: pa.Array | None = None) -> Log:
        """Open the windows' rows as one log; ``items`` are its items, if known."""
        ...

    def digest(self, path: Path) -> str:
        """Return the digest of a stored log's bytes."""
        ...

    def show(self, path: Path, observer: Watcher) -> None:
        """Pass a stored log's rows to an observer."""
        ...

    def divide(
        self, path: Path, work: Divide, bad: Path, clean: Path | None, *, ids_repeat: bool
    ) -> tuple[int, str]:
        """Divide a stored log's rows with ``work``; return the count of bad rows and the clean file's digest.

        ``ids_repeat`` states that an event_id occurs twice; only then are repeated ids searched.
        """
        ...


class LocalEngine:
    """Rows in this process, in memory or, beyond a budget, in a temporary file."""

    pull = staticmethod(pull)
    changed_labels = staticmethod(changed_labels)
    digest = staticmethod(digest_log)
    show = staticmethod(show)
    divide = staticmethod(divide)

    def read(self, paths: Path | Sequence[Path], items: pa.Array | None = None) -> InteractionLog:
        """Open the windows' rows as one log; with known items they are read on first use."""
        return InteractionLog(open_source(paths, {}), items=items)


LOCAL = LocalEngine()


def engine_of(name: str) -> Engine:
    """Return the engine of a deployment; it connects to a cluster on first use of rows."""
    if name == "local":
        return LOCAL
    package = f"slc_ops.engines.{name}"
    try:
        found: Engine = import_module(package).open_engine()
    except ModuleNotFoundError as error:
        if error.name not in (package, "slc_ops.engines"):
            raise
        raise SettingsError(f"engine: {name} is not part of this installation; use engine: local") from None
    return found
