"""Where the rows of a refresh are worked on: in this process, or on a cluster.

An engine opens logs; everything else is said to the logs (:class:`slc_ops.logs.interactions.Log`), and the
kernels that run over their rows are the same. The default is the local engine: rows stream from Parquet into
compact columns and threads pass over them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa

from slc_ops.errors import InputError
from slc_ops.logs.interactions import InteractionLog
from slc_ops.logs.manifest import WindowManifest
from slc_ops.logs.rows import Log

HOLD_OUT = 0.3
NO_TIME = "a window without event_time cannot be cut into an earlier and a later part"
ONE_MOMENT = "all rows of a window share one event_time; a forward hold-out needs two moments"


class Engine(Protocol):
    """Opens the rows of some windows."""

    def read(self, paths: Path | Sequence[Path], *, summed: bool = False) -> Log:
        """The windows' rows; with ``summed`` the item sums that lie beside them may be used."""
        ...

    def cut(self, path: Path, times: int = 1) -> tuple[Log, Log]:
        """A window's rows, cut where 70 % of them lie before; with ``times`` 2 the earlier part again."""
        ...

    def check(self, manifest: WindowManifest) -> None:
        """See that those who will work on an extracted window find the rows that its manifest names."""
        ...


class LocalEngine:
    """Rows in this process, in memory or beyond a budget in a temporary file."""

    def read(self, paths: Path | Sequence[Path], *, summed: bool = False) -> InteractionLog:
        """Read the windows' rows."""
        from slc_ops.correction.window_sums import read_windows

        return (
            read_windows([paths] if isinstance(paths, Path) else paths)
            if summed
            else InteractionLog.read(paths)
        )

    def cut(self, path: Path, times: int = 1) -> tuple[InteractionLog, InteractionLog]:
        """Cut a window in time."""
        import pyarrow.parquet as pq

        earlier = pq.read_table(path)
        for _ in range(times):
            earlier, later = cut_in_time(earlier)
        return InteractionLog.from_table(earlier), InteractionLog.from_table(later)

    def check(self, manifest: WindowManifest) -> None:
        """This process has written the rows itself."""


LOCAL = LocalEngine()


def engine_of(name: str) -> Engine:
    """The engine of a deployment; a cluster is reached when rows are asked for."""
    if name == "local":
        return LOCAL
    from slc_ops.engines.spark.engine import SparkEngine

    return SparkEngine()


def cut_in_time(table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Cut where 70 % of the rows lie before; rows of the same moment stay together."""
    time = InteractionLog.from_table(table).time
    if time is None:
        raise InputError(NO_TIME)
    later = time > np.quantile(time, 1 - HOLD_OUT)
    if not later.any():
        raise InputError(ONE_MOMENT)
    return table.filter(pa.array(~later)), table.filter(pa.array(later))
