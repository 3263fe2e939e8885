"""Where the rows of a refresh are worked on: in this process, or on a cluster.

An engine opens logs; everything else is said to the logs (:class:`slc_ops.logs.interactions.Log`), and the
kernels that run over their rows are the same. The default is the local engine: rows stream from Parquet into
compact columns and threads pass over them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from slc_ops.logs.interactions import InteractionLog, Log


class Engine(Protocol):
    """Opens the rows of some windows."""

    def read(self, paths: Path | Sequence[Path]) -> Log: ...


class LocalEngine:
    """Rows in this process, in memory or beyond a budget in a temporary file."""

    def read(self, paths: Path | Sequence[Path]) -> InteractionLog:
        """Read the windows' rows."""
        return InteractionLog.read(paths)
