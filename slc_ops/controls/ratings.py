"""MovieLens ratings in GroupLens' formats, or MovieLens-100k from PyPI's ``recbole`` wheel.

A rating of 4 or 5 is positive. Ratings are ordered in time per user; GroupLens' timestamps record the entry
of a rating, often dozens per minute, so equal timestamps are ordered by film.
"""

import io
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

from slc_ops.base.errors import InputError

POSITIVE = 4.0
COLUMNS = {"user": pa.int64(), "item": pa.int64(), "rating": pa.float64(), "time": pa.float64()}
# file name → (separator, rows before the data)
FORMATS = {"u.data": ("\t", 0), "ratings.dat": ("::", 0), "ml-100k.inter": ("\t", 1)}


def read_ratings(path: Path) -> pa.Table:
    """Return ``user``, ``item``, ``positive`` and ``share``, the share of the user's history before a row."""
    name, text = _text(path)
    separator, skipped = FORMATS[name]
    table = _parsed(text.replace(b"::", b"\t") if separator == "::" else text, f"{path} ({name})", skipped)
    user, item, rating, time = (table.column(name).to_numpy() for name in COLUMNS)
    order = np.lexsort((item, time, user))
    user, item, rating = user[order], item[order], rating[order]
    _, begin, length = np.unique(user, return_index=True, return_counts=True)
    place = np.arange(len(user)) - np.repeat(begin, length)
    share = (place + 0.5) / np.repeat(length, length)
    return pa.table(
        {"user": user, "item": item, "positive": (rating >= POSITIVE).astype(np.int8), "share": share}
    )


def _text(path: Path) -> tuple[str, bytes]:
    """Return name and content of the ratings file: a file, a folder (one level deep), or GroupLens' zip."""
    if path.is_file() and path.name in FORMATS:
        return path.name, path.read_bytes()
    if path.is_file() and path.suffix == ".zip":
        try:
            with zipfile.ZipFile(path) as archive:
                for member in archive.namelist():
                    if (name := Path(member).name) in FORMATS:
                        return name, archive.read(member)
        except (zipfile.BadZipFile, EOFError) as error:
            raise InputError(f"{path} is not a complete zip file ({error}); download it again") from None
    if path.is_dir():
        for pattern in ("", "*/"):
            for name in FORMATS:
                for file in sorted(path.glob(pattern + name)):
                    return name, file.read_bytes()
        for file in sorted(path.glob("ml-*.zip")):
            return _text(file)
    raise InputError(f"{path} has no MovieLens ratings; expected {', '.join(FORMATS)}, or GroupLens' zip")


def _parsed(text: bytes, where: str, skipped: int) -> pa.Table:
    try:
        table = csv.read_csv(
            io.BytesIO(text),
            read_options=csv.ReadOptions(column_names=list(COLUMNS), skip_rows=skipped),
            parse_options=csv.ParseOptions(delimiter="\t"),
            convert_options=csv.ConvertOptions(column_types=COLUMNS),
        )
    except pa.ArrowInvalid as error:
        raise InputError(
            f"{where} is not in GroupLens' format, user, film, rating and time, separated as published: "
            f"{str(error).splitlines()[0]}"
        ) from None
    if table.num_rows == 0:
        raise InputError(f"{where} has no ratings")
    return table
