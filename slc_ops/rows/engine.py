"""Where the rows of a refresh are worked on: in this process, or on a cluster.

:class:`Engine` is all that an engine must be able to do; everything else is asked of the logs that it
opens (:class:`slc_ops.rows.rows.Log`), and the kernels that run over their rows are the same. The default is
the local engine: rows stream from Parquet into compact columns and threads pass over them. Another engine is
a package ``slc_ops.engines.<name>`` with a function ``open_engine()``; only :func:`engine_of` imports it.
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
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.reading import open_source
from slc_ops.rows.rows import Log
from slc_ops.rows.stored import Divide, RowObserver, divide, show


class Engine(Puller, Protocol):
    """Extracts windows, looks at their rows and bytes where it works, and opens them."""

    def read(self, paths: Path | Sequence[Path], items: pa.Array | None = None) -> Log:
        """The windows' rows as one log; ``items`` where they are known."""
        ...

    def digest(self, path: Path) -> str:
        """The digest of a stored log's bytes."""
        ...

    def show(self, path: Path, observer: RowObserver) -> None:
        """Show a stored log's rows to an observer."""
        ...

    def divide(
        self, path: Path, work: Divide, bad: Path, clean: Path | None, *, ids_repeat: bool
    ) -> tuple[int, str]:
        """Let ``work`` divide a stored log's rows; how many are bad, and the digest of the good ones' file.

        ``ids_repeat`` says that an event_id occurs twice; only then are repeated ones looked for.
        """
        ...


class LocalEngine:
    """Rows in this process, in memory or beyond a budget in a temporary file."""

    pull = staticmethod(pull)
    changed_labels = staticmethod(changed_labels)
    digest = staticmethod(digest_log)
    show = staticmethod(show)
    divide = staticmethod(divide)

    def read(self, paths: Path | Sequence[Path], items: pa.Array | None = None) -> InteractionLog:
        """The windows' rows; read when they are needed, where their items are known."""
        return InteractionLog(open_source(paths, {}), items=items)


LOCAL = LocalEngine()


def engine_of(name: str) -> Engine:
    """The engine of a deployment; a cluster is reached when rows are asked for."""
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
