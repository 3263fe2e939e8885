"""Flights from the package and from BTS files: columns read, rows left out, files refused."""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from slc_ops.base.errors import InputError
from slc_ops.base.window import Window
from slc_ops.controls import nyc
from slc_ops.controls.bts import batches
from slc_ops.controls.flights import gather
from tests.controls.flight_files import COMBINED, MONTHLY, flight, text, write_zip

YEAR = Window.parse("2013-01-01/2014-01-01")


def rows(path: Path) -> list[dict]:
    return [row for batch in batches(path) for row in batch.to_pylist()]


def test_new_york_2013_is_complete_and_has_the_known_share_of_late_flights(tmp_path: Path) -> None:
    flights = gather(None, tmp_path)
    table = pa.Table.from_batches(flights.batches(YEAR))
    assert table.num_rows == 327_346  # 336,776 less the cancelled and diverted
    assert table["late"].to_numpy().mean() == pytest.approx(0.2447, abs=1e-4)
    assert len(table["route"].unique()) == 223
    flights.require_every_month(YEAR)


def test_flights_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = gather(None, tmp_path)
    monkeypatch.setattr(nyc, "batches", lambda path: pytest.fail("read again"))
    assert list(gather(None, tmp_path).directory.iterdir()) == list(first.directory.iterdir())


def test_a_monthly_zip_gives_its_flights(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "m.zip", [flight(), flight(ArrDel15="1.00", CRSDepTime="5", Tail_Number="")])
    found = rows(path)
    assert found[0] == {
        "departure": datetime(2018, 1, 31, 6, 5, tzinfo=UTC),
        "carrier": "AA",
        "route": "JFK-LAX",
        "aircraft": "N1",
        "distance": 2475.0,
        "late": 0,
    }
    assert found[1]["departure"] == datetime(2018, 1, 31, 0, 5, tzinfo=UTC)
    assert (found[1]["late"], found[1]["aircraft"]) == (1, "unknown")


def test_combined_files_give_the_same_flights(tmp_path: Path) -> None:
    zipped = write_zip(tmp_path / "m.zip", [flight()])
    plain = tmp_path / "Combined_Flights_2018.csv"
    plain.write_text(text([flight(Cancelled="False", Diverted="False", CRSDepTime="605")], COMBINED))
    assert rows(plain) == rows(zipped)


def test_old_column_names_and_american_dates_give_the_same_flights(tmp_path: Path) -> None:
    old = {
        "FL_DATE": "1/31/2018 12:00:00 AM", "OP_UNIQUE_CARRIER": "AA", "TAIL_NUM": "N1", "ORIGIN": "JFK",
        "DEST": "LAX", "CRS_DEP_TIME": "605", "ARR_DEL15": "0", "CANCELLED": "0", "DIVERTED": "0",
        "DISTANCE": "2475",
    }  # fmt: skip
    path = tmp_path / "T_ONTIME.csv"
    path.write_text(text([old], list(old)))
    assert rows(path) == rows(write_zip(tmp_path / "m.zip", [flight()]))


def test_cancelled_diverted_and_unarrived_flights_are_left_out(tmp_path: Path) -> None:
    out = [flight(Cancelled="1.00", ArrDel15=""), flight(Diverted="1.00", ArrDel15=""), flight(ArrDel15="")]
    assert len(rows(write_zip(tmp_path / "m.zip", [flight(), *out]))) == 1


def test_a_missing_month_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "bts"
    folder.mkdir()
    write_zip(folder / "1.zip", [flight()])
    write_zip(folder / "3.zip", [flight(FlightDate="2018-03-01")])
    flights = gather(folder, tmp_path / "compact")
    with pytest.raises(InputError, match=r"bts has no flights in 2018-02; .*add the missing files"):
        flights.require_every_month(Window.parse("2018-01-01/2018-04-01"))


def test_a_renamed_column_is_named_with_the_file(tmp_path: Path) -> None:
    columns = ["ArrivalDelay15" if name == "ArrDel15" else name for name in MONTHLY]
    path = write_zip(tmp_path / "renamed.zip", [flight()], columns)
    with pytest.raises(InputError, match=r"renamed\.zip has no column for late: expected one of ArrDel15"):
        rows(path)


def test_a_truncated_zip_is_named(tmp_path: Path) -> None:
    whole = write_zip(tmp_path / "whole.zip", [flight(Dest=f"X{k}") for k in range(5000)])
    half = tmp_path / "half.zip"
    half.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    with pytest.raises(InputError, match=r"half\.zip is not a complete zip file"):
        rows(half)


def test_a_damaged_zip_is_named(tmp_path: Path) -> None:
    whole = write_zip(tmp_path / "damaged.zip", [flight(Dest=f"X{k}") for k in range(5000)])
    content = bytearray(whole.read_bytes())
    content[200:400] = bytes(200)
    whole.write_bytes(bytes(content))
    with pytest.raises(InputError, match=r"damaged\.zip"):
        rows(whole)


@pytest.mark.parametrize(
    ("change", "what"), [({"Distance": "far"}, "far"), ({"FlightDate": "tomorrow"}, "tomorrow")]
)
def test_an_invalid_value_is_named(tmp_path: Path, change: dict[str, str], what: str) -> None:
    path = write_zip(tmp_path / "odd.zip", [flight(), flight(**change)])
    with pytest.raises(InputError, match=rf"odd\.zip .*{what}"):
        rows(path)


def test_a_folder_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no \.csv or \.zip"):
        gather(tmp_path, tmp_path / "compact")
    with pytest.raises(InputError, match="not a folder"):
        gather(tmp_path / "absent", tmp_path / "compact")


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    folder = tmp_path / "bts"
    folder.mkdir()
    write_zip(folder / "1.zip", [flight()])
    window = Window.parse("2018-01-01/2018-02-01")
    assert sum(b.num_rows for b in gather(folder, tmp_path / "c").batches(window)) == 1
    write_zip(folder / "1.zip", [flight(), flight()])
    assert sum(b.num_rows for b in gather(folder, tmp_path / "c").batches(window)) == 2
