"""Where the rows of a refresh are worked on: in this process, or on a cluster.

An engine extracts windows and opens logs; everything else is said to the logs
(:class:`slc_ops.rows.rows.Log`), and the kernels that run over their rows are the same. The default is the
local engine: rows stream from Parquet into compact columns and threads pass over them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from slc_ops.base.parquet import digest_log
from slc_ops.intake.extract import Puller, pull
from slc_ops.intake.labels import changed_labels
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.rows import Log


class Engine(Protocol):
    """Opens the rows of some windows."""

    def read(self, paths: Path | Sequence[Path]) -> Log:
        """The windows' rows."""
        ...


class WindowEngine(Engine, Puller, Protocol):
    """One that also extracts windows, and looks at their bytes where it works."""

    def digest(self, path: Path) -> str:
        """The digest of a stored log's bytes."""
        ...


class LocalEngine:
    """Rows in this process, in memory or beyond a budget in a temporary file."""

    pull = staticmethod(pull)
    changed_labels = staticmethod(changed_labels)
    digest = staticmethod(digest_log)

    def read(self, paths: Path | Sequence[Path]) -> InteractionLog:
        """Read the windows' rows."""
        return InteractionLog.read(paths)


LOCAL = LocalEngine()


def engine_of(name: str) -> WindowEngine:
    """The engine of a deployment; a cluster is reached when rows are asked for."""
    if name == "local":
        return LOCAL
    from slc_ops.rows.spark.engine import SparkEngine

    return SparkEngine()
