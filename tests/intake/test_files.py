"""CSV, Feather and Parquet exports."""

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from slc_ops.base.errors import InputError
from slc_ops.intake.extract import extract
from slc_ops.intake.manifest import WindowManifest
from slc_ops.settings.deployments import Deployment
from slc_ops.settings.sources import FilesSource
from tests.intake.conftest import WEEK

HEADER = "event_id,event_time,user_id,item_id,label,logit\n"


def pull(home: Path, *paths: str, **settings: object) -> WindowManifest:
    source = FilesSource.model_validate({"paths": paths, **settings})
    return extract(Deployment(source=source), WEEK, home / "windows", home=home)


def test_every_format_gives_the_same_rows(tmp_path: Path, rows: pa.Table) -> None:
    plain = rows.set_column(4, "label", rows["label"].cast(pa.float64()))  # CSV has no integer type
    pacsv.write_csv(rows, tmp_path / "a.csv")
    feather.write_feather(plain, tmp_path / "a.feather", chunksize=100)
    pq.write_table(plain, tmp_path / "a.parquet")
    digests = set()
    for name in ("a.csv", "a.feather", "a.parquet"):
        source = FilesSource(paths=(name,))
        digests.add(extract(Deployment(source=source), WEEK, tmp_path / name[2:], home=tmp_path).digest)
    assert len(digests) == 1


def test_patterns_may_match_several_files_and_each_is_read_once(tmp_path: Path, rows: pa.Table) -> None:
    pacsv.write_csv(rows.slice(0, 100), tmp_path / "a.csv")
    pacsv.write_csv(rows.slice(100), tmp_path / "b.csv")
    assert pull(tmp_path, "*.csv", "a.csv").rows == rows.num_rows


def test_unusual_ids_round_trip_through_csv(tmp_path: Path) -> None:
    ids = ["007", "NA", 'say "hi", twice', "two\nlines", "Übung 数学", "x" * 10_000]
    table = pa.table(
        {
            "event_id": [str(k) for k in range(len(ids))],
            "event_time": ["2026-01-05T00:00:00Z"] * len(ids),
            "user_id": ids,
            "item_id": ids,
            "label": [1] * len(ids),
            "logit": [0.5] * len(ids),
        }
    )
    pacsv.write_csv(table, tmp_path / "a.csv")
    found = pq.read_table(pull(tmp_path, "a.csv").path)
    assert found["item_id"].to_pylist() == found["user_id"].to_pylist() == ids


def test_an_empty_field_is_null_and_words_such_as_none_are_not(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(HEADER + "1,2026-01-05T00:00:00Z,,NULL,,nan\n")
    (row,) = pq.read_table(pull(tmp_path, "a.csv").path).to_pylist()
    assert (row["user_id"], row["item_id"], row["label"]) == (None, "NULL", None)
    assert row["logit"] != row["logit"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("1,2026-01-05T00:00:00Z,u,i,yes,0.5", "yes"),
        ("1,2026-01-05T00:00:00,u,i,1,0.5", "expected ISO 8601 with an offset"),
        ("1,2026-01-05T00:00:00Z,u,i,1", "Expected 6 columns, got 5"),
    ],
)
def test_an_unreadable_line_is_named(tmp_path: Path, line: str, words: str) -> None:
    (tmp_path / "a.csv").write_text(HEADER + line + "\n")
    with pytest.raises(InputError, match=words):
        pull(tmp_path, "a.csv")


def test_csv_times_may_be_numbers_since_1970(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(HEADER + f"1,{int(WEEK.start.timestamp()) * 1000},u,i,1,0.5\n")
    assert pull(tmp_path, "a.csv", epoch_unit="ms").rows == 1


def test_a_pattern_that_matches_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no file matches .*\.csv"):
        pull(tmp_path, "*.csv")


def test_a_truncated_feather_file_is_refused(tmp_path: Path, rows: pa.Table) -> None:
    feather.write_feather(rows, tmp_path / "a.feather")
    whole = (tmp_path / "a.feather").read_bytes()
    (tmp_path / "a.feather").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"a\.feather cannot be read"):
        pull(tmp_path, "a.feather")
