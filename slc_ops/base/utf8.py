"""Text columns that are not UTF-8, which Arrow does not reject."""

import pyarrow as pa
from pyarrow import types as pt

from slc_ops.base.errors import InputError

NO_CHARACTER = "\uffff"
"""Stands for bytes that are not UTF-8: Unicode assigns no character to it, so an id with it is unusable."""


def require_utf8(column: str, values: pa.Array) -> None:
    """Raise :class:`InputError` for text that is not UTF-8: Arrow and Parquet accept it, later readers fail.

    >>> text = pa.array([b"a", b"\\xff"]).view(pa.string())
    >>> require_utf8("item_id", text)
    Traceback (most recent call last):
        ...
    slc_ops.base.errors.InputError: column item_id has text that is not UTF-8, for example ...
    """
    if pt.is_dictionary(values.type):
        values = values.dictionary  # unused values count, too
    if not (pt.is_string(values.type) or pt.is_large_string(values.type)):
        return
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        texts = values.cast(pa.large_binary()).to_pylist()
        wrong = next(text[:40] for text in texts if text and text.decode(errors="ignore").encode() != text)
        raise InputError(
            f"column {column} has text that is not UTF-8, for example {wrong!r}; write it in UTF-8"
        ) from None


def decoded(values: pa.Array) -> pa.Array:
    """Return text and bytes as text, with :data:`NO_CHARACTER` in place of bytes that are not UTF-8.

    >>> decoded(pa.array([b"ab", b"ab\\xff", None])).to_pylist() == ["ab", "ab" + NO_CHARACTER, None]
    True
    """
    kind = values.type
    if pt.is_dictionary(kind):
        texts = decoded(values.dictionary)
        return values if texts is values.dictionary else pa.DictionaryArray.from_arrays(values.indices, texts)
    is_text = pt.is_string(kind) or pt.is_large_string(kind)
    if not (is_text or pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_binary_view(kind)):
        return values
    raw = values.cast(pa.large_binary())
    try:
        valid = raw.cast(pa.string())  # raises for other bytes
        return values if is_text else valid
    except pa.ArrowInvalid:
        return pa.array([None if text is None else _decode(text) for text in raw.to_pylist()], pa.string())


def _decode(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode(errors="replace").replace("\ufffd", NO_CHARACTER)
