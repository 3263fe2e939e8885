"""The engine of deployments with ``engine: spark``: opens logs on one cluster, and caches those in use."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from slc_ops.base.parquet import digest_parts, parts_of
from slc_ops.engines.spark.answers import Found, bytes_of
from slc_ops.engines.spark.cluster import Task, add_up
from slc_ops.engines.spark.extraction import pull
from slc_ops.engines.spark.log import SparkLog, frame_of
from slc_ops.engines.spark.session import master_url, open_session
from slc_ops.engines.spark.splits import Split, parquet, plan_splits
from slc_ops.engines.spark.validation import changed_labels, divide, show
from slc_ops.intake.extract import Pull
from slc_ops.intake.labels import has_labels
from slc_ops.intake.manifest import WindowManifest
from slc_ops.intake.writing import Watcher
from slc_ops.quality.statistics import RowStatistics
from slc_ops.rows.reading import files_of
from slc_ops.rows.stored import Divide

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkEngine:
    """Logs on one cluster; the application ends with this process, or with :meth:`close`."""

    def __init__(self) -> None:
        self._master = master_url()

    @property
    def session(self) -> "SparkSession":
        """Return this process's session, opened (again) if necessary."""
        return open_session(self._master)

    def read(self, paths: Path | Sequence[Path], items: pa.Array | None = None) -> SparkLog:
        """Open the windows' rows, which every executor must find at these paths; ``items``: if known."""
        given = [paths] if isinstance(paths, str | Path) else list(paths)
        files = [file.absolute() for path in given for file in files_of(Path(path))]
        session = self.session
        look = [(file, file.stat().st_mtime_ns, file.stat().st_size) for file in files]
        return _opened(
            (session.sparkContext.applicationId, *look), lambda: SparkLog(session, files, items=items)
        )

    def pull(self, asked: Pull) -> WindowManifest:
        """Extract a window by executors, if the source consists of files that they can read."""
        return pull(self.session, asked)

    def changed_labels(self, old: Path, new: Path) -> int:
        """Count the events whose label differs between the old log and the new one."""
        if not (has_labels(old) and has_labels(new)):
            return 0
        return changed_labels(self.session, self.splits(old), self.splits(new))

    def digest(self, path: Path) -> str:
        """Return the digest of a log's bytes, as the executors read them."""
        files = [part.absolute() for part in parts_of(path)]
        session = self.session
        task = Task(session.sparkContext.broadcast(files), None, bytes_of)
        found: Found = add_up(session, frame_of(session, files), task, len(files), 1)
        return digest_parts(found.values) if path.is_dir() else found.values[path.name]

    def show(self, path: Path, observer: Watcher) -> None:
        """Pass a stored log to the statistics of a window, on the executors."""
        assert isinstance(observer, RowStatistics)  # noqa: S101 - the only observer of stored logs
        show(self.session, self.splits(path), observer)

    def divide(
        self, path: Path, work: Divide, bad: Path, clean: Path | None, *, ids_repeat: bool
    ) -> tuple[int, str]:
        """Divide a stored log's rows on the executors, into folders of parts."""
        return divide(self.session, self.splits(path), work, bad, clean, ids_repeat=ids_repeat)

    def splits(self, path: Path) -> list[Split]:
        """Return the splits of a stored log."""
        return plan_splits([parquet(part.absolute()) for part in parts_of(path)])

    def close(self) -> None:
        """End the Spark application."""
        self.session.stop()


_logs: dict[tuple[Any, ...], SparkLog] = {}
MOST_LOGS = 16


def _opened(key: tuple[Any, ...], make: Callable[[], SparkLog]) -> SparkLog:
    """Return the cached log of these files: the methods of a refresh use the same files and items."""
    if key not in _logs:
        while len(_logs) >= MOST_LOGS:
            _logs.pop(next(iter(_logs))).release()
        _logs[key] = make()
    return _logs[key]
