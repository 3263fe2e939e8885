"""Remove the rows of erased users from an extracted window.

The window is rewritten from its own rows, through the same observer, as an extraction from a log without
these users would write it. Results about the old rows (validation, quarantine, clean rows, sums) lie in the
replaced directory and disappear with it.
"""

import fcntl
import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc

from slc_ops.base.digests import digest_file
from slc_ops.base.parquet import open_parquet
from slc_ops.intake.erased import Erased
from slc_ops.intake.extract import LOCK, finish
from slc_ops.intake.manifest import FILE, LOG, WindowManifest
from slc_ops.intake.writing import LogWriter, Observer


def extracted(directory: Path) -> list[Path]:
    """Return the windows of a deployment, oldest first; wait for an extraction that is placing one."""
    if not directory.is_dir():
        return []
    with (directory / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return sorted(path.parent for path in directory.glob(f"[!.]*/{FILE}"))


def rows_of(path: Path, erased: Erased) -> int:
    """Count the rows of erased users in a Parquet file with the log's columns."""
    with open_parquet(path) as file:
        if "user_id" not in file.schema_arrow.names:
            return 0
        users = (batch.column(0) for batch in file.iter_batches(columns=["user_id"]))
        return sum(pc.sum(erased.rows(each)).as_py() or 0 for each in users)


def erase_window(window: Path, erased: Erased, observer: Observer | None = None) -> WindowManifest:
    """Rewrite a window without the rows of erased users; an interruption leaves it unchanged."""
    manifest = WindowManifest.read(window)
    with tempfile.TemporaryDirectory(prefix=f".{window.name}.", dir=window.parent) as temporary:
        path = Path(temporary) / LOG
        with open_parquet(manifest.path) as file:
            writer = LogWriter(path, {each.name: each.type for each in file.schema_arrow}, observer)
            try:
                for batch in erased.without(file.iter_batches()):
                    writer.add(batch)
                writer.close()
            except BaseException:  # an interrupt, too, must not leave a partial file
                writer.abandon()
                raise
        written = replace(
            manifest,
            rows=writer.digest.rows,
            digest=writer.digest.hexdigest(),
            path=path,
            file_digest=digest_file(path),
        )
        finish(written, window, observer, erased)
    return WindowManifest.read(window)
