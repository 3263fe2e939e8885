"""The engine of deployments with ``engine: spark``: opens logs on one cluster, and keeps those in use."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slc_ops.base.errors import InputError
from slc_ops.intake.manifest import WindowManifest
from slc_ops.rows.reading import files_of
from slc_ops.rows.spark.answers import content
from slc_ops.rows.spark.cluster import Task, add_up
from slc_ops.rows.spark.log import SparkLog, frame_of
from slc_ops.rows.spark.session import master_url, open_session
from slc_ops.rows.spark.splits import parquet, plan_splits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkEngine:
    """Logs on one cluster; the application ends with this process, or with :meth:`close`."""

    def __init__(self) -> None:
        self._master = master_url()

    @property
    def session(self) -> "SparkSession":
        """This process's session, opened (again) where it is needed."""
        return open_session(self._master)

    def read(self, paths: Path | Sequence[Path]) -> SparkLog:
        """The windows' rows, which every executor must see at these paths."""
        given = [paths] if isinstance(paths, str | Path) else list(paths)
        files = [file.absolute() for path in given for file in files_of(Path(path))]
        session = self.session
        look = [(file, file.stat().st_mtime_ns, file.stat().st_size) for file in files]
        return _opened((session.sparkContext.applicationId, *look), lambda: SparkLog(session, files))

    def check(self, manifest: WindowManifest) -> None:
        """Read an extracted window on the cluster and compare its content with its manifest."""
        session, splits = self.session, plan_splits([parquet(manifest.path.absolute())])
        task = Task(session.sparkContext.broadcast(splits), None, content)
        found = add_up(session, frame_of(session, splits), task, len(splits), 1)
        if (found.digest.rows, found.digest.hexdigest()) != (manifest.rows, manifest.digest):
            raise InputError(
                f"the cluster finds {found.digest.rows} rows in {manifest.path}, and their content is not "
                f"what the manifest says ({manifest.rows} rows); see that all workers share this path, or "
                f"remove {manifest.directory} and extract again"
            )

    def close(self) -> None:
        """End the application."""
        self.session.stop()


_logs: dict[tuple[Any, ...], SparkLog] = {}
MOST_LOGS = 16


def _opened(key: tuple[Any, ...], make: Callable[[], SparkLog]) -> SparkLog:
    """The log of these files: the methods of a refresh ask for the same ones, whose items are known then."""
    if key not in _logs:
        while len(_logs) >= MOST_LOGS:
            _logs.pop(next(iter(_logs))).release()
        _logs[key] = make()
    return _logs[key]
