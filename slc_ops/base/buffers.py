"""Convert numbers between Arrow and NumPy by their buffers, without a copy and without pandas.

``np.asarray(array)``, ``array.to_numpy()`` and ``pa.array(values)`` import pandas to detect its objects: 0.6
s and 50 MB that neither a fit nor a server needs.
"""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_DTYPES = {
    pa.int8(): np.int8, pa.int16(): np.int16, pa.int32(): np.int32, pa.int64(): np.int64,
    pa.uint8(): np.uint8, pa.uint16(): np.uint16, pa.uint32(): np.uint32, pa.uint64(): np.uint64,
    pa.float32(): np.float32, pa.float64(): np.float64,
}  # fmt: skip
_TYPES = {np.dtype(kind): arrow for arrow, kind in _DTYPES.items()}


def as_numpy(array: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Return a column of numbers or booleans as a NumPy array; nulls raise ``ValueError``.

    >>> as_numpy(pa.array([7, 8, 9]).slice(1)).tolist()
    [8, 9]
    """
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_boolean(array.type):
        return as_numpy(array.cast(pa.int8())).view(np.bool_)
    if array.null_count:
        raise ValueError(f"{array.null_count} nulls in a column of numbers")
    if len(array) == 0:
        return np.empty(0, _DTYPES[array.type])
    return np.frombuffer(array.buffers()[1], _DTYPES[array.type])[array.offset : array.offset + len(array)]


def as_arrow(values: NDArray[Any], *, nan_is_null: bool = False) -> pa.Array:
    """Return numbers as an Arrow array that shares their memory.

    >>> as_arrow(np.array([0.5, np.nan]), nan_is_null=True).to_pylist()
    [0.5, None]
    """
    values = np.ascontiguousarray(values)
    valid = None
    if nan_is_null and np.isnan(values).any():
        valid = pa.py_buffer(np.packbits(~np.isnan(values), bitorder="little"))
    return pa.Array.from_buffers(_TYPES[values.dtype], len(values), [valid, pa.py_buffer(values)])
