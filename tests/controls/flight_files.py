"""Small files in the formats of the Bureau of Transportation Statistics."""

import csv
import io
import zipfile
from pathlib import Path

MONTHLY = [
    "Year", "FlightDate", "Reporting_Airline", "Tail_Number", "Origin", "Dest", "CRSDepTime", "ArrDel15",
    "Cancelled", "Diverted", "Distance", "",
]  # fmt: skip
COMBINED = [
    "FlightDate", "Airline", "Origin", "Dest", "Cancelled", "Diverted", "CRSDepTime", "Distance",
    "Operating_Airline", "Tail_Number", "ArrDel15",
]  # fmt: skip


def flight(**changes: str) -> dict[str, str]:
    """One flight, on time, under all names that the files use."""
    row = {
        "Year": "2018", "FlightDate": "2018-01-31", "Reporting_Airline": "AA", "Operating_Airline": "AA",
        "Airline": "American Airlines Inc.", "Tail_Number": "N1", "Origin": "JFK", "Dest": "LAX",
        "CRSDepTime": "0605", "ArrDel15": "0.00", "Cancelled": "0.00", "Diverted": "0.00",
        "Distance": "2475.00",
    }  # fmt: skip
    return row | changes


def text(rows: list[dict[str, str]], columns: list[str]) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, extrasaction="ignore", restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def write_zip(path: Path, rows: list[dict[str, str]], columns: list[str] = MONTHLY) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("On_Time.csv", text(rows, columns))
        archive.writestr("readme.html", "<html></html>")
    return path
