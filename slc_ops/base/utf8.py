"""Text columns that are not UTF-8, which Arrow itself carries along."""

import pyarrow as pa
from pyarrow import types as pt

from slc_ops.base.errors import InputError


def require_utf8(column: str, values: pa.Array) -> None:
    """Refuse text that is not UTF-8: Arrow and Parquet carry it, and the first who reads it fails.

    >>> text = pa.array([b"a", b"\\xff"]).view(pa.string())
    >>> require_utf8("item_id", text)
    Traceback (most recent call last):
        ...
    slc_ops.base.errors.InputError: column item_id has text that is not UTF-8, for example ...
    """
    if pt.is_dictionary(values.type):
        values = values.dictionary  # values that no row has count, too
    if not (pt.is_string(values.type) or pt.is_large_string(values.type)):
        return
    try:
        values.validate(full=True)
    except pa.ArrowInvalid as error:
        texts = values.cast(pa.large_binary()).to_pylist()
        wrong = next(
            (f"for example {text[:40]!r}" for text in texts if text and not is_utf8(text)), str(error)
        )
        raise InputError(f"column {column} has text that is not UTF-8, {wrong}; write it in UTF-8") from None


def is_utf8(text: bytes) -> bool:
    """Whether bytes spell a text."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
