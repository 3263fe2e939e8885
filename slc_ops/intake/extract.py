"""Extract one window of a deployment's log into an immutable Parquet file with a manifest; erase users."""

import errno
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.base.digests import digest_file, digest_json
from slc_ops.base.errors import InputError
from slc_ops.base.files import replacing_directory, typed_storage
from slc_ops.base.parquet import stored_batches, stored_schema
from slc_ops.base.window import Window
from slc_ops.intake.contract import (
    TIME,
    clock_changes,
    common_type,
    convert,
    one_score,
    selection,
    target_type,
)
from slc_ops.intake.erased import Erased
from slc_ops.intake.labels import (
    CHANGED,
    changed_labels,
    joined,
    label_span,
    read_labels,
    without_waiting,
)
from slc_ops.intake.manifest import FILE, LOG, WindowManifest
from slc_ops.intake.sources import Source, open_source
from slc_ops.intake.writing import Observer, write_log
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.environment import Installation
from slc_ops.settings.sources import Mapped


@dataclass(frozen=True)
class Pull:
    """A request to extract a window's rows with their labels, without erased users, through an observer."""

    source: Source
    deployment: Deployment
    window: Window
    path: Path
    observer: Observer | None
    erased: Erased
    labels: Source | None


class Puller(Protocol):
    """An engine that extracts a window: a cluster, for example."""

    def pull(self, asked: Pull) -> WindowManifest:
        """Extract like :func:`pull`."""

    def changed_labels(self, old: Path, new: Path) -> int:
        """Count like :func:`~slc_ops.intake.labels.changed_labels`."""


LOCK = ".lock"
ABANDONED = 24 * 3600  # seconds


def extract(
    deployment: Deployment,
    window: Window,
    directory: Path,
    *,
    refresh: bool = False,
    home: Path | None = None,
    observer: Observer | None = None,
    by: Puller | None = None,
) -> WindowManifest:
    """Write ``directory/<window.key>/log.parquet`` and its manifest, and return the manifest.

    Labels of a separate source are joined. With ``label_lag``, rows without a label are omitted and counted.

    A finished window costs one manifest read. With ``refresh`` the source is checked again for late rows: an
    unchanged fingerprint skips reading, unchanged content keeps the window, and changed content replaces the
    window and its digest. Changed source settings always cause a new extraction.

    ``observer`` receives the rows as they are written and finishes with the placed window; it receives
    nothing for a window that is only looked up. ``by`` extracts the rows; None: this process.
    """
    target = directory / window.key
    known = WindowManifest.read(target) if (target / FILE).exists() else None
    settings = request_digest(deployment, window)
    same_request = known is not None and known.settings_digest == settings
    if known and same_request and not refresh:
        return known
    home = home or Installation.from_environment().home
    source, labels = open_source(deployment.source, home, window), None
    fingerprint = source.fingerprint()
    if deployment.labels is not None:
        labels = open_source(deployment.labels, home, label_span(deployment, window))
        both = [fingerprint, labels.fingerprint()]
        fingerprint = None if None in both else digest_json(both)
    if known and same_request and fingerprint is not None and fingerprint == known.fingerprint:
        return known
    directory.mkdir(parents=True, exist_ok=True)
    sweep(directory)
    erased = Erased(home, directory.name)
    with tempfile.TemporaryDirectory(prefix=f".{window.key}.", dir=directory) as temporary, _held(temporary):
        bring, changed = (pull, changed_labels) if by is None else (by.pull, by.changed_labels)
        asked = Pull(source, deployment, window, Path(temporary) / LOG, observer, erased, labels)
        pulled = bring(asked)
        found = replace(pulled, settings_digest=settings, fingerprint=fingerprint)
        finish(found, target, observer, erased, changed)
    return WindowManifest.read(target)


def is_filled(deployment: Deployment, window: Window, home: Path) -> bool:
    """Return True when the source has a row of the window, and the label source one of its span."""
    source = open_source(deployment.source, home, window)
    rows = in_contract(source.batches(), deployment.source, window, {}, selects=source.selects)
    if next(rows, None) is None:
        return False
    if deployment.labels is None:
        return True
    labels = open_source(deployment.labels, home, label_span(deployment, window))
    return any(batch.num_rows for batch in labels.batches())


def request_digest(deployment: Deployment, window: Window) -> str:
    """Return a digest of the request to the sources; unset label settings do not change it."""
    asked: list[Any] = [window.as_dict(), deployment.source.model_dump(mode="json")]
    if deployment.label_lag is not None or deployment.labels is not None:
        labels = None if deployment.labels is None else deployment.labels.model_dump(mode="json")
        asked += [labels, label_span(deployment, window).as_dict()]
    return digest_json(asked)


def finish(
    found: WindowManifest,
    target: Path,
    observer: Observer | None,
    erased: Erased,
    changed: Callable[[Path, Path], int] = changed_labels,
) -> None:
    """Move an extracted window to its place. With equal content only the manifest's metadata is updated.

    A lock admits one process at a time; of several that extracted the same window, the first one's stays.
    Rows that were extracted before a user was erased (``erased`` is the list at that time) are discarded.
    """
    with (target.parent / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released on close
        erased.check_current()
        known = WindowManifest.read(target) if (target / FILE).exists() else None
        if known and known.window == found.window and known.digest == found.digest:
            notes = {CHANGED: known.notes[CHANGED]} if CHANGED in known.notes else {}
            replace(
                known,
                settings_digest=found.settings_digest,
                fingerprint=found.fingerprint,
                notes=found.notes | notes,
            ).write()
            return
        if known and known.window == found.window and (count := changed(known.path, found.path)):
            found.notes[CHANGED] = count
        with replacing_directory(target) as finished:
            os.replace(found.path, finished / LOG)
            placed = replace(found, path=finished / LOG)
            if observer is not None:
                observer.finish(placed)
            placed.write()


def sweep(directory: Path, idle: float = ABANDONED) -> None:
    """Remove directories of killed extractions: unlocked and unchanged for a day.

    Modification times alone are not enough: the clock may jump while an extraction waits for its source.
    """
    for path in directory.glob(".*"):
        if path.is_dir() and time.time() - _last_touched(path) > idle:
            with suppress(BlockingIOError, FileNotFoundError), _held(path, fcntl.LOCK_EX | fcntl.LOCK_NB):
                shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _held(directory: str | Path, how: int = fcntl.LOCK_SH) -> Iterator[None]:
    """Lock a directory for the block; the lock ends with the process."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, how)
        except OSError as error:
            if error.errno not in {errno.ENOLCK, errno.ENOTSUP}:
                raise
        yield
    finally:
        os.close(handle)


def _last_touched(directory: Path) -> float:
    times = [directory.stat().st_mtime]
    with suppress(FileNotFoundError):  # removed by another process
        times += [path.stat().st_mtime for path in directory.iterdir()]
    return max(times)


def pull(asked: Pull) -> WindowManifest:
    """Stream the rows into their file and return its manifest."""
    source, deployment, window, labels = asked.source, asked.deployment, asked.window, asked.labels
    notes: dict[str, Any] = {}
    settings = deployment.source
    types = known_types(source, settings, notes)
    rows = in_contract(source.batches(), settings, window, notes, selects=source.selects)
    if labels is not None and deployment.labels is not None:
        types.pop("label", None)
        known = read_labels(labels, deployment.labels, label_span(deployment, window))
        rows = joined(rows, known, window, deployment.lag, notes)
    if leaves_out(deployment):
        rows = without_waiting(rows, notes)
    digest, schema = write_log(asked.path, types, asked.erased.without(rows), asked.observer)
    return WindowManifest(
        rows=digest.rows,
        digest=digest.hexdigest(),
        path=asked.path,
        window=window,
        schema={field.name: str(field.type) for field in schema},
        source=source.describe() | ({} if labels is None else {"labels": labels.describe()}),
        notes=notes,
        file_digest=digest_file(asked.path),
    )


def leaves_out(deployment: Deployment) -> bool:
    """Return True when rows without a label are omitted from a window."""
    return deployment.labels is not None or deployment.label_lag is not None


def known_types(source: Source, settings: Mapped, notes: dict[str, Any]) -> dict[str, pa.DataType]:
    """Return the log's columns and types over all parts of the source with a schema before reading."""
    types: dict[str, pa.DataType] = {}
    for part, schema in source.schemas():
        chosen = selection(schema.names, settings.columns, ["event_time"], part)
        notes["source_columns"] = sorted({*notes.get("source_columns", ()), *schema.names})
        for column, name in chosen.items():
            found = target_type(column, schema.field(name).type)
            try:
                types[column] = common_type(column, types.get(column, pa.null()), found)
            except InputError as error:
                raise InputError(f"{part}: {error}") from None
    if "logit" in types:
        types.pop("probability", None)
    return types


def in_contract(
    batches: Iterable[pa.RecordBatch],
    settings: Mapped,
    window: Window,
    notes: dict[str, Any],
    *,
    selects: bool,
) -> Iterator[pa.RecordBatch]:
    """Rename and convert columns of a source's batches; filter by the window unless the source ``selects``.

    Rows without a time belong to no window: ``notes`` counts them, and the suite reports them.
    """
    start, end = pa.scalar(window.start, TIME), pa.scalar(window.end, TIME)
    for batch in batches:
        chosen = selection(batch.schema.names, settings.columns, ["event_time"])
        rows = pa.record_batch(
            {column: convert(column, batch.column(name), settings) for column, name in chosen.items()}
        )
        rows = one_score(rows)
        notes.setdefault("source_columns", batch.schema.names)
        odd = clock_changes(batch.column(chosen["event_time"]), settings)
        if not selects:
            time = rows.column("event_time")
            if time.null_count:
                notes["rows_without_time"] = notes.get("rows_without_time", 0) + time.null_count
            inside = pc.and_(pc.greater_equal(time, start), pc.less(time, end))
            if not pc.all(inside, skip_nulls=False).as_py():
                rows = rows.filter(inside)
                odd = {name: mask.filter(inside) for name, mask in odd.items()}
        for name, mask in odd.items():
            if count := pc.sum(mask).as_py():
                notes[name] = notes.get(name, 0) + count
        if rows.num_rows:
            yield rows


def extracted(directory: Path) -> list[Path]:
    """Return the windows of a deployment, oldest first; wait for an extraction that is placing one."""
    if not directory.is_dir():
        return []
    with (directory / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return sorted(path.parent for path in directory.glob(f"[!.]*/{FILE}"))


def rows_of(path: Path, erased: Erased) -> int:
    """Count the rows of erased users in a Parquet file with the log's columns."""
    if "user_id" not in stored_schema(path).names:
        return 0
    users = (batch.column(0) for batch in stored_batches(path, ["user_id"]))
    return sum(pc.sum(erased.rows(each)).as_py() or 0 for each in users)


def erase_window(window: Path, erased: Erased, observer: Observer | None = None) -> WindowManifest:
    """Rewrite a window without the rows of erased users; an interruption leaves it unchanged.

    It is rewritten from its own rows, through the same observer, as an extraction from a log without these
    users would write it. Results about the old rows (validation, quarantine, clean rows, sums) lie in the
    replaced directory and disappear with it.
    """
    manifest = WindowManifest.read(window)
    hidden = tempfile.TemporaryDirectory(prefix=f".{window.name}.", dir=window.parent)
    with typed_storage(window), hidden as temporary:
        path = Path(temporary) / LOG
        types = {each.name: each.type for each in stored_schema(manifest.path)}
        digest, _ = write_log(path, types, erased.without(stored_batches(manifest.path)), observer)
        written = replace(
            manifest,
            rows=digest.rows,
            digest=digest.hexdigest(),
            path=path,
            file_digest=digest_file(path),
        )
        finish(written, window, observer, erased)
    return WindowManifest.read(window)
