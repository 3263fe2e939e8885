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


def validated(bench: Bench, form: str, column: str, count: int = 1) -> ValidationResult:
    """Validate the newest window with ``count`` ids in Latin-1, in a given file format."""
    rows = pq.read_table(bench.week / "part-0.parquet", partitioning=None)
    texts = rows[column].combine_chunks().cast(pa.binary()).to_pylist()
    texts[:count] = ["Übung".encode("latin-1") + b"%d" % k for k in range(count)]
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
    result = validated(bench, form, column)
    (row,) = pq.read_table(result.clean_path.with_name("quarantine.parquet")).to_pylist()
    assert row["reason"] == f"{column}_not_utf8"
    assert row[column].endswith(r"\xdcbung0")
    assert result.status == "warned"
    clean = pq.read_table(result.clean_path)
    assert clean.num_rows == ROWS - 1
    assert clean[column].type == pa.string()


def test_more_invalid_ids_than_the_budget_stop_the_window(bench: Bench) -> None:
    with pytest.raises(ValidationStopped, match="item_id_not_utf8") as stopped:
        validated(bench, "string", "item_id", 100)
    assert r"item_id=\xdcbung0" in str(stopped.value)
    assert "\n" not in str(stopped.value)
