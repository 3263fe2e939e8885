"""Take the rows of erased users out of a window that was extracted already.

The window is written anew from its own rows, past the same observer, exactly as an extraction from a log that
never had these users would have written it. What was worked out about the old rows (validation, quarantine,
clean rows, sums) goes with them, because it lies in the directory that is replaced.
"""

import fcntl
import tempfile
from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc

from slc_ops.base.files import digest_file
from slc_ops.base.parquet import open_parquet
from slc_ops.intake.erased import Erased
from slc_ops.intake.extract import LOCK, finish
from slc_ops.intake.manifest import FILE, LOG, WindowManifest
from slc_ops.intake.writing import LogWriter, Observer


def extracted(directory: Path) -> list[Path]:
    """The windows of a deployment, oldest first, once no extraction is just putting one in its place."""
    if not directory.is_dir():
        return []
    with (directory / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return sorted(path.parent for path in directory.glob(f"[!.]*/{FILE}"))


def rows_of(path: Path, erased: Erased) -> int:
    """How many rows a Parquet file with the log's columns holds of erased users."""
    with open_parquet(path) as file:
        if "user_id" not in file.schema_arrow.names:
            return 0
        users = (batch.column(0) for batch in file.iter_batches(columns=["user_id"]))
        return sum(pc.sum(erased.rows(each)).as_py() or 0 for each in users)


def erase_window(window: Path, erased: Erased, observer: Observer | None = None) -> WindowManifest:
    """Write a window again without the rows of erased users; interrupted, the window is as it was."""
    manifest = WindowManifest.read(window)
    with tempfile.TemporaryDirectory(prefix=f".{window.name}.", dir=window.parent) as temporary:
        path = Path(temporary) / LOG
        with open_parquet(manifest.path) as file:
            writer = LogWriter(path, {each.name: each.type for each in file.schema_arrow}, observer)
            try:
                for batch in erased.without(file.iter_batches()):
                    writer.add(batch)
                writer.close()
            except BaseException:  # even an interrupt must not leave half a file behind
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
