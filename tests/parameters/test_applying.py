import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from slc_ops.base.errors import InputError, SettingsError
from slc_ops.methods import METHODS, fit
from slc_ops.parameters.applying import apply_file
from slc_ops.rows.interactions import InteractionLog
from tests.methods.synthetic import log, table

READ = {
    ".parquet": pq.read_table,
    ".csv": pyarrow.csv.read_csv,
    ".feather": pyarrow.feather.read_table,
}


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(table(rows=700, seed=2), path, row_group_size=200)
    return path


@pytest.mark.parametrize("method", METHODS)
def test_two_columns_are_added_and_all_others_kept(method, source, tmp_path):
    found = fit(method, log())
    assert apply_file(found, source, tmp_path / "out.parquet") == 700
    before, after = pq.read_table(source), pq.read_table(tmp_path / "out.parquet")
    assert after.column_names == [*before.column_names, "p_base", "p_corrected"]
    assert after.select(before.column_names).equals(before)
    rows = InteractionLog.read(source)
    assert np.array_equal(after["p_corrected"].to_numpy(), found.apply(rows))
    assert np.allclose(after["p_base"].to_numpy(), 1 / (1 + np.exp(-rows.logit)), rtol=1e-14)


@pytest.mark.parametrize("suffix", READ)
def test_the_format_follows_the_suffix(suffix, source, tmp_path):
    found = fit("slc", log())
    target = tmp_path / f"out{suffix}"
    apply_file(found, source, target)
    assert np.array_equal(
        READ[suffix](target)["p_corrected"].to_numpy(), found.apply(InteractionLog.read(source))
    )
    again = tmp_path / "again.parquet"
    renamed = {"probability": "p_base", "logit": "logit"}
    with pytest.raises(InputError, match="already has a column p_base"):
        apply_file(found, target, again, renamed)


def test_labels_and_unused_columns_are_not_required(tmp_path):
    pq.write_table(pa.table({"probability": [0.2, 0.9]}), tmp_path / "rows.parquet")
    apply_file(fit("platt", log()), tmp_path / "rows.parquet", tmp_path / "out.parquet")
    with pytest.raises(InputError, match="no column item_id, which slc needs"):
        apply_file(fit("slc", log()), tmp_path / "rows.parquet", tmp_path / "out.parquet")
    with pytest.raises(InputError, match=r"no column item_id and no column event_time, which slc_t needs"):
        apply_file(fit("slc_t", log()), tmp_path / "rows.parquet", tmp_path / "out.parquet")


def test_columns_can_be_renamed_and_keep_their_names(tmp_path):
    pq.write_table(pa.table({"pid": ["item-000"], "score": [0.3]}), tmp_path / "rows.parquet")
    rename = {"item_id": "pid", "logit": "score"}
    apply_file(fit("slc", log()), tmp_path / "rows.parquet", tmp_path / "out.parquet", rename)
    assert pq.read_table(tmp_path / "out.parquet").column_names == ["pid", "score", "p_base", "p_corrected"]


def test_a_file_may_be_corrected_in_place(source):
    apply_file(fit("slc", log()), source, source)
    assert "p_corrected" in pq.read_table(source).column_names


def test_invalid_rows_write_no_output_and_keep_an_old_one(source, tmp_path):
    bad = pq.read_table(source)
    logit = bad["logit"].to_numpy().copy()
    logit[[350, 650]] = np.nan
    pq.write_table(bad.set_column(4, "logit", pa.array(logit)), source, row_group_size=200)
    target = tmp_path / "out.parquet"
    target.write_bytes(b"old")
    with pytest.raises(InputError, match=r"'logit'.*2 rows.*row 350"):
        apply_file(fit("slc", log()), source, target)
    assert target.read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.parquet", "rows.parquet"]


def test_an_unknown_output_format_is_refused(source, tmp_path):
    with pytest.raises(SettingsError, match=r"'.xlsx'"):
        apply_file(fit("slc", log()), source, tmp_path / "out.xlsx")


def test_ids_of_another_type_are_refused(tmp_path):
    pq.write_table(pa.table({"item_id": [1.5, 2] * 8, "logit": [0.3] * 16}), tmp_path / "rows.parquet")
    with pytest.raises(InputError, match="expected text or integers"):
        apply_file(fit("slc", log()), tmp_path / "rows.parquet", tmp_path / "out.parquet")


def test_csv_cells_are_never_formulas(tmp_path):
    texts = ["=1+2", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\tx", "-1.5", "+3e-5", "a=b", "", None, "'x"]
    rows = pa.table({"item_id": pa.array([f"={k}" for k in range(11)]), "note": texts, "logit": [0.1] * 11})
    rows = rows.append_column("kind", pa.array(texts).dictionary_encode())
    pq.write_table(rows, tmp_path / "rows.parquet")
    found = fit("slc", log())
    apply_file(found, tmp_path / "rows.parquet", tmp_path / "out.csv")
    written = (tmp_path / "out.csv").read_text()
    guarded = ["'=1+2", "'+cmd|' /C calc'!A0", "'-2+3", "'@SUM(A1)", "'\tx", "-1.5", "+3e-5", "a=b"]
    back = pyarrow.csv.read_csv(tmp_path / "out.csv").to_pydict()
    assert back["note"][:8] == back["kind"][:8] == guarded
    assert back["item_id"] == [f"'={k}" for k in range(11)]
    apply_file(found, tmp_path / "rows.parquet", tmp_path / "raw.csv", formulas=True)
    assert (tmp_path / "raw.csv").read_text() == written.replace("\"'", '"').replace('"x"', '"\'x"')
    apply_file(found, tmp_path / "rows.parquet", tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").select(rows.column_names).equals(rows)
