"""Read columns of published text files and count omitted rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from slc_ops.base.errors import InputError

QUOTED = pacsv.ParseOptions(newlines_in_values=True)
NOTHING = ["", "NA", "NaN", "nan", "NULL"]


@dataclass
class Published:
    """The interactions of a data set, one row each, in file order.

    Columns: ``event_id``, ``user_id``, ``item_id``, ``group_id`` (text; the group may be null), ``label``
    (0 or 1) and ``clock``, an integer that orders a student's interactions: microseconds since 1970 if
    ``has_time``, otherwise only an order. ``counts`` holds the numbers of omitted rows by reason.
    """

    rows: pa.Table
    has_time: bool
    counts: dict[str, int] = field(default_factory=dict)


def read_columns(
    path: Path, types: Mapping[str, pa.DataType], what: str, parse: pacsv.ParseOptions = QUOTED
) -> pa.Table:
    """Return the named columns of a delimited text file; raise `InputError` for a missing one.

    A name such as ``action_num|actionId`` matches either column; the result uses the first name. A file that
    is not UTF-8 is read as Latin-1, in which every byte is a character: some old releases are in Latin-1, and
    names only have to stay distinct.
    """
    try:
        return read_encoded(path, types, what, parse, "utf8")
    except NotUtf8:
        return read_encoded(path, types, what, parse, "latin1")


class NotUtf8(InputError):
    """The file has another encoding than UTF-8."""


def read_encoded(
    path: Path, types: Mapping[str, pa.DataType], what: str, parse: pacsv.ParseOptions, encoding: str
) -> pa.Table:
    """Return the named columns of a file in one encoding."""
    reading = pacsv.ReadOptions(encoding=encoding)
    try:
        with pacsv.open_csv(path, read_options=reading, parse_options=parse) as head:
            names = head.schema.names
        found = {name: [each for each in name.split("|") if each in names] for name in types}
        missing = [" or ".join(map(repr, name.split("|"))) for name, there in found.items() if not there]
        if missing:
            raise InputError(
                f"{path} is not {what}: it has no column {missing[0]}; it has: {', '.join(names[:40])}"
            )
        convert = pacsv.ConvertOptions(
            include_columns=[there[0] for there in found.values()],
            column_types={there[0]: types[name] for name, there in found.items()},
            null_values=NOTHING,
            strings_can_be_null=True,
        )
        table = pacsv.read_csv(path, read_options=reading, parse_options=parse, convert_options=convert)
        return table.rename_columns([name.split("|")[0] for name in types])
    except pa.ArrowInvalid as error:
        kind = NotUtf8 if "invalid UTF8" in str(error) else InputError
        raise kind(f"{path} cannot be read as {what}: {' '.join(str(error).split())}") from None
    except UnicodeDecodeError:  # in the column names
        raise NotUtf8(f"{path} has columns whose names are not UTF-8") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None


def one_file(paths: Sequence[Path], what: str) -> Path:
    """Return the only file of a data set; raise `InputError` for several."""
    if len(paths) != 1:
        raise InputError(f"{what} is one file, not {len(paths)}")
    return paths[0]


def whole_text(numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert numbers that may be written as 12 or 12.0 to text."""
    return pc.cast(pc.cast(numbers, pa.int64()), pa.string())


def clean(
    found: pa.Table, label: str, needed: Mapping[str, Sequence[str]], key: Sequence[str]
) -> tuple[pa.Table, dict[str, int]]:
    """Drop rows without a label 0 or 1 or without ``needed`` values, then repetitions of the key.

    ``needed`` maps the reason of an omission to the columns; the counts by reason are returned.
    """
    counts = {"rows in the file": found.num_rows}
    labels = pa.array([0, 1]).cast(found[label].type)
    found = keep(found, counts, "label not 0 or 1", pc.is_in(found[label], value_set=labels))
    for reason, names in needed.items():
        complete = reduce(pc.and_, (found[name].is_valid() for name in names))
        found = keep(found, counts, reason, complete)
    return collapse(found, key, counts), counts


def with_numbered_ids(
    found: pa.Table,
    names: tuple[str, str, str, str],
    group: pa.ChunkedArray,
    clock: pa.ChunkedArray,
) -> pa.Table:
    """Return the rows of files whose ids are numbers; ``names`` are event, user, item and label."""
    event, user, item, label = names
    return pa.table(
        {
            "event_id": whole_text(found[event]),
            "user_id": whole_text(found[user]),
            "item_id": whole_text(found[item]),
            "group_id": group,
            "label": pc.cast(found[label], pa.int8()),
            "clock": clock,
        }
    )


def keep(published: pa.Table, counts: dict[str, int], reason: str, mask: pa.ChunkedArray) -> pa.Table:
    """Return the rows with ``mask`` True; count the others under ``reason``."""
    mask = pc.fill_null(mask, False)
    counts[reason] = len(mask) - int(pc.sum(mask).as_py() or 0)
    return published.filter(mask)


def collapse(published: pa.Table, key: Sequence[str], counts: dict[str, int]) -> pa.Table:
    """Keep the first row per key and count the repetitions.

    Platforms list an interaction once per skill, with the same label each time. A sequence model could read
    the label of the second row from the first.
    """
    numbered = published.append_column("row", pa.array(np.arange(published.num_rows)))
    first = numbered.group_by(list(key)).aggregate([("row", "min")])["row_min"]  # null is a value, too
    counts["repeated rows"] = published.num_rows - len(first)
    return published.take(pa.array(np.sort(first)))
