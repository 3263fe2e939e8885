"""Rows that say the same thing twice, found among millions without holding their texts."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.base.parquet import open_parquet
from slc_ops.intake.content import mix, value_hashes


def repeated(hashes: np.ndarray) -> np.ndarray:
    """The values that occur more than once, each once, sorted. Sorts ``hashes`` in place.

    >>> repeated(np.array([5, 3, 5, 5, 1]))
    array([5])
    """
    hashes.sort()
    again: np.ndarray = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
    return again


def later_occurrences(path: Path, column: str, suspects: np.ndarray) -> np.ndarray:
    """Row numbers whose value of ``column`` occurred in an earlier row.

    ``suspects`` are the repeated hashes; the values themselves decide, so that two texts with one hash are
    not taken for duplicates.
    """
    if not len(suspects):
        return np.empty(0, np.int64)
    numbers, values = [], []
    offset = 0
    with open_parquet(path) as file:
        for batch in file.iter_batches(columns=[column]):
            ids = batch.column(0)
            candidate = np.isin(value_hashes(ids), suspects) & ids.is_valid().to_numpy(zero_copy_only=False)
            numbers.append(np.flatnonzero(candidate) + offset)
            values.append(ids.filter(pa.array(candidate)))
            offset += len(ids)
    rows: np.ndarray = np.concatenate(numbers)[later(pa.chunked_array(values).combine_chunks())]
    return rows


def later(values: pa.Array) -> np.ndarray:
    """Which values occurred before, in order.

    >>> later(pa.array(["a", "b", "a", "a"])).tolist()
    [False, False, True, True]
    """
    codes = pc.dictionary_encode(values).indices.to_numpy()
    _, first = np.unique(codes, return_index=True)
    found = np.ones(len(codes), bool)
    found[first] = False
    return found


def combined_hashes(*columns: np.ndarray) -> np.ndarray:
    """One hash per row over the hashes of several columns."""
    combined = np.zeros(len(columns[0]), np.uint64)
    for hashes in columns:
        combined = mix(combined ^ hashes)
    return combined
