"""The rows of a stored log as written: passed to an observer, or divided into good and bad ones."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.base.hashing import column_hashes, distinct, value_hashes
from slc_ops.base.parquet import digest_log, stored_batches, stored_schema
from slc_ops.intake.writing import Watcher
from slc_ops.rows.reading import with_offsets

Divide = Callable[[Iterable[pa.RecordBatch], pa.Schema, np.ndarray, Path, Path | None], int]
"""Writes the bad rows of some batches to one file and the good ones to another (None: nowhere), and returns
the number of bad ones. Arguments: the batches, their schema and the numbers of rows with an earlier event_id.
It runs where the rows are."""


def show(path: Path, observer: Watcher) -> None:
    """Pass a log to an observer, from the first row to the last."""
    for batch in stored_batches(path):
        observer.add(batch, column_hashes(batch))


def divide(path: Path, work: Divide, bad: Path, clean: Path | None, *, ids_repeat: bool) -> tuple[int, str]:
    """Divide a log's rows with ``work``; return the number of bad rows and the digest of the clean file."""
    for target in (bad, clean):
        if target is not None and target.is_dir():  # parts of another engine
            shutil.rmtree(target)
    schema = stored_schema(path)
    repeated_rows = np.empty(0, np.int64)
    if ids_repeat and "event_id" in schema.names:
        repeated_rows = later_occurrences(path, repeated(np.concatenate(list(id_hashes(path)))))
    count = work(stored_batches(path), schema, repeated_rows, bad, clean)
    return count, "" if clean is None else digest_log(clean)


def id_hashes(path: Path) -> Iterator[np.ndarray]:
    """Yield the hashes of the event ids, batch by batch."""
    for batch in stored_batches(path, ["event_id"]):
        yield value_hashes(batch.column(0).drop_null())


def rows_with_ids(path: Path, hashes: np.ndarray) -> Iterator[tuple[np.ndarray, pa.Array]]:
    """Yield the numbers of the rows whose event_id has one of the hashes, and these ids, batch by batch."""
    for first, batch in with_offsets(stored_batches(path, ["event_id"])):
        ids = batch.column(0)
        found = np.isin(value_hashes(ids), hashes) & np.asarray(ids.is_valid())
        yield np.flatnonzero(found) + first, ids.filter(pa.array(found))


def repeated(hashes: np.ndarray) -> np.ndarray:
    """Return the values that occur more than once, each once, sorted. Sorts ``hashes`` in place.

    >>> repeated(np.array([5, 3, 5, 5, 1]))
    array([5])
    """
    hashes.sort()
    return distinct(hashes[1:][hashes[1:] == hashes[:-1]])


def later_occurrences(path: Path, suspects: np.ndarray) -> np.ndarray:
    """Return the numbers of the rows whose event_id occurred in an earlier row.

    ``suspects`` are the repeated hashes; the ids themselves are compared, so that two texts with one hash
    do not count as duplicates.
    """
    if not len(suspects):
        return np.empty(0, np.int64)
    numbers, ids = zip(*rows_with_ids(path, suspects), strict=True)
    rows: np.ndarray = np.concatenate(numbers)[later(pa.chunked_array(ids).combine_chunks())]
    return rows


def later(values: pa.Array) -> np.ndarray:
    """Return a mask of the values that occurred before.

    >>> later(pa.array(["a", "b", "a", "a"])).tolist()
    [False, False, True, True]
    """
    codes = pc.dictionary_encode(values).indices.to_numpy()
    _, first = np.unique(codes, return_index=True)
    found = np.ones(len(codes), bool)
    found[first] = False
    return found
