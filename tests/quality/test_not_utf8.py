"""An id that is not valid UTF-8 costs its row, not the window."""

from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from slc_ops.base.errors import ValidationStopped
from slc_ops.intake.extract import extract
from slc_ops.quality.result import ValidationResult
from slc_ops.quality.verdict import Baseline, validate
from slc_ops.settings.deployments import Deployment
from tests.quality.lake_bench import NEWEST, ROWS, Bench

SOURCES: dict[str, dict[str, Any]] = {
    "string": {"kind": "lake", "path": "odd"},
    "binary": {"kind": "lake", "path": "odd"},
    "dictionary": {"kind": "lake", "path": "odd"},
    "csv": {"kind": "files", "paths": ["odd/*.csv"]},
}


LATIN = ["Übung".encode("latin-1") + b"%d" % k for k in range(100)]


def validated(bench: Bench, form: str, column: str, ids: list[bytes]) -> ValidationResult:
    """Validate the newest window with these ids in its first rows, in a given file format."""
    rows = pq.read_table(bench.week / "part-0.parquet", partitioning=None)
    texts = rows[column].combine_chunks().cast(pa.binary()).to_pylist()
    texts[: len(ids)] = ids
    values = pa.array(texts, pa.binary())
    if form != "binary":
        values = values.view(pa.string())
    if form == "dictionary":
        values = values.dictionary_encode()
    rows = rows.set_column(rows.schema.get_field_index(column), column, values)
    home = bench.installation.home
    (home / "odd").mkdir()
    if form == "csv":
        pacsv.write_csv(rows, home / "odd" / "part.csv")
    else:
        pq.write_table(rows, home / "odd" / "part.parquet")
    deployment = Deployment.model_validate({"source": SOURCES[form]})
    manifest = extract(deployment, NEWEST, home / "odd_windows", home=home)
    return validate(manifest, Baseline(), deployment.quality)


@pytest.mark.parametrize("form", SOURCES)
@pytest.mark.parametrize("column", ["item_id", "user_id", "event_id"])
def test_the_row_is_quarantined_with_the_reason(bench: Bench, form: str, column: str) -> None:
    result = validated(bench, form, column, LATIN[:1])
    (row,) = pq.read_table(result.clean_path.with_name("quarantine.parquet")).to_pylist()
    assert row["reason"] == f"{column}_not_utf8"
    assert row[column] == "\uffffbung0"
    assert result.status == "warned"
    clean = pq.read_table(result.clean_path)
    assert clean.num_rows == ROWS - 1
    assert clean[column].type == pa.string()


@pytest.mark.parametrize("form", SOURCES)
def test_an_id_with_the_replacement_character_is_quarantined_too(bench: Bench, form: str) -> None:
    result = validated(bench, form, "item_id", ["a\uffffb".encode(), "a\ufffdb".encode()])
    (row,) = pq.read_table(result.clean_path.with_name("quarantine.parquet")).to_pylist()
    assert (row["item_id"], row["reason"]) == ("a\uffffb", "item_id_not_utf8")
    assert "a\ufffdb" in pq.read_table(result.clean_path)["item_id"].to_pylist()


def test_more_invalid_ids_than_the_budget_stop_the_window(bench: Bench) -> None:
    with pytest.raises(ValidationStopped, match="item_id_not_utf8") as stopped:
        validated(bench, "string", "item_id", LATIN)
    assert "item_id=\uffffbung0" in str(stopped.value)
    assert "\n" not in str(stopped.value)
