"""Detect text columns that are not UTF-8, which Arrow does not reject."""

import pyarrow as pa
from pyarrow import types as pt

from slc_ops.base.errors import InputError

MARK = "\uffff"
"""Prefix of a replacement for text that is not UTF-8. No text contains this reserved character of Unicode."""


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
    if (pt.is_string(values.type) or pt.is_large_string(values.type)) and not is_valid(values):
        texts = values.cast(pa.large_binary()).to_pylist()
        wrong = next(repr(text[:40]) for text in texts if text and not is_utf8(text))
        raise InputError(
            f"column {column} has text that is not UTF-8, for example {wrong}; write it in UTF-8"
        )


def marked(values: pa.Array) -> pa.Array:
    """Return text and bytes as text; invalid UTF-8 is escaped and prefixed with :data:`MARK`.

    >>> marked(pa.array([b"ab", b"ab\\xff", None])).to_pylist() == ["ab", MARK + "ab\\\\xff", None]
    True
    """
    if pt.is_dictionary(values.type):
        texts = marked(values.dictionary)
        same = texts.type == values.dictionary.type and texts is values.dictionary
        return values if same else pa.DictionaryArray.from_arrays(values.indices, texts)
    if pt.is_string(values.type) or pt.is_large_string(values.type):
        if is_valid(values):
            return values
    elif pt.is_binary(values.type) or pt.is_large_binary(values.type) or pt.is_binary_view(values.type):
        try:
            return values.cast(pa.string())
        except pa.ArrowInvalid:
            pass
    else:
        return values
    texts = values.cast(pa.large_binary()).to_pylist()
    return pa.array([None if text is None else written_out(text) for text in texts], pa.string())


def written_out(text: bytes) -> str:
    """Decode bytes as UTF-8; escape and mark them when they are invalid."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return MARK + text.decode(errors="backslashreplace")


def is_valid(texts: pa.Array) -> bool:
    """Return True when all texts of a column are UTF-8."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def is_utf8(text: bytes) -> bool:
    """Return True when the bytes are UTF-8."""
    return not written_out(text).startswith(MARK)
