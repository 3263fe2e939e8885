"""The US Department of Transportation's on-time files: monthly zips or CSVs, or combined yearly CSVs.

The Bureau of Transportation Statistics renamed its columns more than once (``FL_DATE``, ``FlightDate``), so
each has several names, compared without case and underscores. Cancelled and diverted are 0/1, 0.00/1.00 or
False/True, depending on the year of download.
"""

import csv
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from slc_ops.base.errors import InputError

BLOCK_BYTES = 8 << 20
NAMES = {
    "date": ("FlightDate", "FL_DATE"),
    "carrier": (
        "Reporting_Airline", "Operating_Airline", "OP_UNIQUE_CARRIER", "OP_CARRIER", "UniqueCarrier",
        "UNIQUE_CARRIER", "Airline",
    ),
    "aircraft": ("Tail_Number", "TailNum", "TAIL_NUM"),
    "origin": ("Origin",),
    "dest": ("Dest",),
    "scheduled": ("CRSDepTime", "CRS_DEP_TIME"),
    "late": ("ArrDel15", "ARR_DEL15"),
    "cancelled": ("Cancelled",),
    "diverted": ("Diverted",),
    "distance": ("Distance",),
}  # fmt: skip


def files(folder: Path) -> list[Path]:
    """Return the CSVs and zips of a folder; raise `InputError` if there are none."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; expected one with BTS on-time files (.csv or .zip)")
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() in (".csv", ".zip"))
    if not found:
        raise InputError(f"{folder} has no .csv or .zip file; expected BTS on-time files")
    return found


def batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the arrived flights of one file, in the control's columns."""
    with _opened(path) as stream:
        columns = known_columns(header(stream, path), path)
        stream.seek(0)
        for rows in read_csv(stream, path, columns):
            yield _arrived(rows, path)


def known_columns(names: list[str], path: Path) -> dict[str, str]:
    """Map our column names to those of the file.

    >>> known_columns(["FL_DATE", "OP_CARRIER", "TAIL_NUM", "ORIGIN", "DEST", "CRS_DEP_TIME", "ARR_DEL15",
    ...                "CANCELLED", "DIVERTED", "DISTANCE"], Path("x.csv"))["date"]
    'FL_DATE'
    """
    plain = {_plain(name): name for name in reversed(names)}
    columns = {}
    for column, candidates in NAMES.items():
        name = next((plain[_plain(each)] for each in candidates if _plain(each) in plain), None)
        if name is None:
            raise InputError(
                f"{path} has no column for {column}: expected one of {', '.join(candidates)}, found "
                f"{', '.join(names[:12])}{', …' if len(names) > 12 else ''}"
            )
        columns[column] = name
    return columns


def _plain(name: str) -> str:
    return name.replace("_", "").casefold()


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """Open the CSV, or the only CSV in a zip; raise `InputError` for an incomplete zip."""
    try:
        if path.suffix.lower() != ".zip":
            with path.open("rb") as stream:
                yield stream
            return
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.lower().endswith(".csv")]
            if len(names) != 1:
                raise InputError(f"{path} holds {len(names)} CSV files; expected one")
            with archive.open(names[0]) as stream:
                yield stream
    except (zipfile.BadZipFile, EOFError, zlib.error) as error:
        raise InputError(
            f"{path} is not a complete zip file ({error}); download it again: the downloader resumes"
        ) from None


def _arrived(rows: pa.RecordBatch, path: Path) -> pa.RecordBatch:
    flown = pc.and_(_is_no(rows.column("cancelled")), _is_no(rows.column("diverted")))
    rows = rows.filter(pc.and_(flown, pc.is_valid(rows.column("late"))))
    try:
        late = rows.column("late").cast(pa.float32()).cast(pa.int8())
        return in_format(rows, _departure(rows), late)
    except pa.ArrowInvalid as error:
        raise InputError(f"{path} has a value that is no flight's: {str(error).splitlines()[0]}") from None


def in_format(rows: pa.RecordBatch, departure: pa.Array, late: pa.Array) -> pa.RecordBatch:
    """Return flights in the control's format."""
    return pa.record_batch(
        {
            "departure": departure,
            "carrier": rows.column("carrier"),
            "route": pc.binary_join_element_wise(rows.column("origin"), rows.column("dest"), "-"),
            "aircraft": pc.fill_null(rows.column("aircraft"), "unknown"),
            "distance": rows.column("distance").cast(pa.float32()),
            "late": late,
        }
    )


def _is_no(column: pa.Array) -> pa.Array:
    text = pc.utf8_lower(pc.fill_null(column, "0"))
    return pc.is_in(text, value_set=pa.array(["0", "0.0", "0.00", "false"]))


def _departure(rows: pa.RecordBatch) -> pa.Array:
    # The date is 2018-01-31, or 1/31/2018 12:00:00 AM in older downloads; the time is 5, 45, 605 or 1430.
    date = pc.utf8_slice_codeunits(pc.list_element(pc.split_pattern(rows.column("date"), " "), 0), 0, 10)
    american = rows.num_rows and "/" in date[0].as_py()
    day = pc.strptime(date, "%m/%d/%Y" if american else "%Y-%m-%d", "s")
    clock = rows.column("scheduled").cast(pa.float64()).cast(pa.int32())
    minutes = pc.subtract(clock, pc.multiply(pc.divide(clock, 100), 40))  # an hour is 60, not 100
    seconds = pc.multiply(minutes, 60).cast(pa.int64()).cast(pa.duration("s"))
    return pc.add(day, seconds).cast(pa.timestamp("s", "UTC"))


def read_csv(stream: IO[bytes], path: Path, columns: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """Yield batches with the columns ``wanted name → name in the file``, all as text.

    Types are not inferred: the first block of a column may differ from the rest of twelve million rows.
    """
    try:
        reader = pacsv.open_csv(
            stream,
            read_options=pacsv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False),
            convert_options=pacsv.ConvertOptions(
                include_columns=list(columns.values()),
                column_types=dict.fromkeys(columns.values(), pa.string()),
                strings_can_be_null=True,
                null_values=["", "NA"],
            ),
        )
        for batch in reader:
            yield pa.record_batch(list(batch.columns), names=list(columns))
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        first = str(error).splitlines()[0]
        raise InputError(
            f"{path} cannot be read as CSV with the columns {', '.join(columns)}: {first}"
        ) from None


def header(stream: IO[bytes], path: Path) -> list[str]:
    """Read the column names of a CSV stream, which advances."""
    line = stream.readline().decode("utf-8-sig", errors="replace").strip()
    if not line:
        raise InputError(f"{path} is empty; expected a header line and rows")
    return [name.strip() for name in next(csv.reader([line]))]
