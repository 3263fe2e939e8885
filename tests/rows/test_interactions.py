from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from time import sleep

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from slc_ops.base.errors import InputError, SettingsError
from slc_ops.rows import loading
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.reading import TableSource, open_source


def rows(**changed) -> pa.Table:
    columns = {
        "event_time": [3, 1, 2, 5],
        "user_id": ["u", "v", "u", "w"],
        "item_id": ["b", "a", "b", "ü"],
        "label": [1, 0, 1, 0],
        "logit": [0.5, -1.0, 0.25, 2.0],
    }
    return pa.table(columns | changed)


@pytest.mark.parametrize("suffix", ["parquet", "csv", "feather"])
def test_every_format_gives_the_same_log(suffix, tmp_path):
    path = tmp_path / f"rows.{suffix}"
    write = {
        "parquet": pq.write_table,
        "csv": pyarrow.csv.write_csv,
        "feather": pyarrow.feather.write_feather,
    }[suffix]
    write(rows(weight=[1.0, 2.0, 0.5, 0.0]), path)
    log = InteractionLog.read(path)
    assert log.n_rows == 4
    assert log.items.to_pylist() == ["b", "a", "ü"]
    assert log.item_codes.tolist() == [0, 1, 0, 2]
    assert log.label.tolist() == [1.0, 0.0, 1.0, 0.0]
    assert log.logit.tolist() == [0.5, -1.0, 0.25, 2.0]
    assert log.weight.tolist() == [1.0, 2.0, 0.5, 0.0]
    assert log.time.tolist() == [3.0, 1.0, 2.0, 5.0]
    assert log.user_codes.tolist() == [0, 1, 0, 2]
    assert log.digest() == InteractionLog.from_table(rows(weight=[1.0, 2.0, 0.5, 0.0])).digest()


def test_absent_columns_have_defaults():
    log = InteractionLog.from_table(rows().select(["item_id", "label", "logit"]))
    assert log.weight.tolist() == [1.0] * 4
    assert not log.weighted
    assert log.time is None
    assert log.user_codes is None
    assert log.groups is None
    assert log.rows(0, 4, {"group"}).group is None
    assert log.backbone_versions == ()


def test_groups_and_backbone_versions_are_read_on_request():
    log = InteractionLog.from_table(
        rows(group_id=["g", "h", "g", None], backbone_version=["2", "1", "2", None])
    )
    assert log.rows(0, 4, {"group"}).group.tolist() == [0, 1, 0, -1]
    assert log.backbone_versions == ("1", "2")


def test_timestamps_are_seconds_since_1970_in_utc():
    noon = datetime(2026, 1, 5, 12, 0, 0, 250_000, tzinfo=UTC)
    stamps = pa.array([noon] * 4, pa.timestamp("us", "UTC"))
    assert InteractionLog.from_table(rows(event_time=stamps)).time[0] == noon.timestamp()
    naive = pa.array([noon.replace(tzinfo=None)] * 4, pa.timestamp("ns"))
    assert InteractionLog.from_table(rows(event_time=naive)).time[0] == noon.timestamp()


def test_several_files_are_one_log_in_the_given_order(tmp_path):
    for name, item in (("2", "x"), ("1", "y")):
        pq.write_table(rows(item_id=[item, "a", item, "a"]), tmp_path / f"{name}.parquet")
    log = InteractionLog.read([tmp_path / "2.parquet", tmp_path / "1.parquet"])
    assert log.items.take(log.item_codes).to_pylist() == ["x", "a", "x", "a", "y", "a", "y", "a"]


def test_a_lake_contains_only_its_partitions(tmp_path):
    for week in ("2026-01-12", "2026-01-05"):
        (tmp_path / f"week={week}").mkdir()
        pq.write_table(rows(item_id=[week] * 4), tmp_path / f"week={week}" / "part-0.parquet")
    pq.write_table(pa.table({"truth": [1]}), tmp_path / "truth.parquet")
    log = InteractionLog.read(tmp_path)
    assert log.items.to_pylist() == ["2026-01-05", "2026-01-12"]


def test_columns_can_be_renamed(tmp_path):
    table = rows().rename_columns(["event_time", "user_id", "pid", "y", "logit"])
    pq.write_table(table, tmp_path / "rows.parquet")
    log = InteractionLog.read(tmp_path / "rows.parquet", rename={"item_id": "pid", "label": "y"})
    assert log.items.to_pylist() == ["b", "a", "ü"]


@pytest.mark.parametrize("row_group_size", [7, 1000])
@pytest.mark.parametrize("memory", [0, 1 << 30])
@pytest.mark.parametrize("kind", ["text", "integers", "far integers"])
def test_batches_and_memory_do_not_change_the_log(tmp_path, kind, memory, row_group_size):
    rng = np.random.default_rng(0)
    number = rng.integers(0, 300, 1000)
    ids = {
        "text": pa.array([f"i{n}" for n in number]),
        "integers": pa.array(number.astype(np.int32)),
        "far integers": pa.array(number * 10**12),
    }[kind]
    table = pa.table({"item_id": ids, "label": rng.integers(0, 2, 1000), "logit": rng.normal(size=1000)})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=row_group_size)
    log = InteractionLog(open_source(tmp_path / "rows.parquet", {}), memory=memory)
    assert log.items.take(log.item_codes).to_pylist() == ids.to_pylist()
    assert log.logit.tolist() == table["logit"].to_pylist()
    assert log.digest() == InteractionLog.from_table(table).digest()
    part = log.rows(311, 702)
    assert part.label.tolist() == table["label"].to_pylist()[311:702]


@pytest.mark.parametrize("memory", [0, 1 << 30])
def test_codes_of_batches_become_codes_of_the_log(tmp_path, memory, monkeypatch):
    """Few ids wait here, so several batches are settled, each a few times the known ids or less."""
    monkeypatch.setattr(loading, "MOST_WAITING", 3)
    rng = np.random.default_rng(1)
    whole = pa.array([f"item {k}" for k in range(100)])
    items = rng.integers(0, 100, 60)
    groups = [None if k % 7 == 0 else f"g{k % 5}" for k in range(60)]
    table = pa.table(
        {"label": [0, 1] * 30, "logit": [0.0] * 60, "group_id": groups}
        | {"item_id": pa.DictionaryArray.from_arrays(pa.array(items), whole)}
    )
    parts = [table.slice(first, 10) for first in range(0, 60, 10)]  # each with the whole dictionary
    for k, part in enumerate(parts):
        pyarrow.feather.write_feather(part, tmp_path / f"{k}.feather")
    numbers = table.slice(0, 4).set_column(3, "item_id", pa.array([5, 6, 5, 10**15]))
    pyarrow.feather.write_feather(numbers, tmp_path / "9.feather")
    log = InteractionLog(open_source(sorted(tmp_path.iterdir()), {}), memory=memory)
    expected = [*table["item_id"].to_pylist(), "5", "6", "5", str(10**15)]
    assert log.items.take(log.item_codes).to_pylist() == expected
    assert log.items.to_pylist() == list(dict.fromkeys(expected))
    codes = log.rows(0, 64, {"group"}).group
    assert [None if code < 0 else log.groups[code].as_py() for code in codes] == [*groups, *groups[:4]]


def test_different_contents_have_different_digests():
    plain = InteractionLog.from_table(rows()).digest()
    for changed in (
        {"logit": [0.5, -1.0, 0.25, 2.0000001]},
        {"label": [1, 0, 1, 1]},
        {"item_id": ["b", "a", "b", "u"]},
        {"event_time": [3, 1, 2, 6]},
        {"weight": [1.0] * 4},
    ):
        assert InteractionLog.from_table(rows(**changed)).digest() != plain


BAD = [
    ({"logit": [0.1, float("nan"), float("inf"), 0.2]}, r"'logit'.*2 rows.*NaN or infinite.*row 1 "),
    ({"logit": [0.1, None, 0.3, 0.2]}, r"'logit'.*1 row .*null.*row 1 "),
    ({"logit": ["a", "b", "c", "d"]}, r"'logit'.* is of type string, for example 'a'; expected numbers"),
    ({"label": [0, 1, 2, -1]}, r"'label'.*2 rows.*not 0 or 1.*row 2 "),
    ({"label": [0.0, 0.5, 1.0, 1.0]}, r"'label'.*1 row .*not 0 or 1.*row 1 "),
    ({"label": [0, None, 1, 1]}, r"'label'.*1 row .*null"),
    ({"weight": [1.0, -0.5, 1.0, float("nan")]}, r"'weight'.*2 rows.*row 1 "),
    ({"item_id": ["a", None, None, "b"]}, r"'item_id'.*2 rows.*null.*row 1 "),
    ({"item_id": [1.5, 2.5, 3.5, 4.5]}, r"'item_id'.* is of type double, for example 1.5"),
]


@pytest.mark.parametrize(("changed", "message"), BAD)
def test_invalid_rows_are_refused_with_column_count_and_first_row(changed, message):
    with pytest.raises(InputError, match=message):
        InteractionLog.from_table(rows(**changed))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"probability": [0.1, 1.5, -0.1, 0.2]}, r"'probability'.*2 rows.*outside \[0, 1\].*row 1 "),
        ({"probability": [0.1, float("nan"), 0.1, 0.2]}, r"'probability'.*NaN"),
    ],
)
def test_invalid_probabilities_are_refused(changed, message):
    with pytest.raises(InputError, match=message):
        InteractionLog.from_table(rows(**changed).drop_columns(["logit"]))


def test_invalid_times_are_refused_if_times_are_used():
    log = InteractionLog.from_table(rows(event_time=[1.0, float("nan"), 2.0, None]))
    with pytest.raises(InputError, match=r"'event_time'.*null"):
        _ = log.time


def test_invalid_rows_are_counted_over_the_entire_file(tmp_path):
    logit = np.zeros(1000)
    logit[[400, 500, 900]] = np.nan
    table = pa.table({"item_id": ["a"] * 1000, "label": [0, 1] * 500, "logit": logit})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=100)
    with pytest.raises(
        InputError, match=r"rows.parquet: 3 rows where it is NaN or infinite, the first is row 400"
    ):
        InteractionLog.read(tmp_path / "rows.parquet")


@pytest.mark.parametrize("column", ["item_id", "label", "logit"])
def test_a_missing_column_is_named(column):
    with pytest.raises(InputError, match=f"no column {column}.*it has .*--map"):
        InteractionLog.from_table(rows().drop_columns([column]))


def test_an_empty_log_is_refused():
    with pytest.raises(InputError, match="no rows"):
        InteractionLog.from_table(rows().slice(0, 0))


def test_unreadable_files_are_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere.parquet does not exist"):
        InteractionLog.read(tmp_path / "nowhere.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 this is not a Parquet file")
    with pytest.raises(InputError, match=r"broken.parquet cannot be read as Parquet"):
        InteractionLog.read(tmp_path / "broken.parquet")
    (tmp_path / "rows.xlsx").write_bytes(b"")
    with pytest.raises(InputError, match=r"suffix '.xlsx'"):
        InteractionLog.read(tmp_path / "rows.xlsx")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no"):
        InteractionLog.read(tmp_path / "empty")
    with pytest.raises(InputError, match="no input file"):
        InteractionLog.read([])


def test_a_file_with_a_damaged_page_is_named(tmp_path):
    rng = np.random.default_rng(0)
    table = pa.table({"item_id": ["a"] * 9000, "label": [0, 1] * 4500, "logit": rng.normal(size=9000)})
    path = tmp_path / "rows.parquet"
    pq.write_table(table, path, write_page_checksum=True)
    content = bytearray(path.read_bytes())
    content[2000:40_000] = bytes(38_000)
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match=r"rows.parquet cannot be read to its end"):
        InteractionLog.read(path)


def test_files_with_different_columns_are_read_as_one_log(tmp_path):
    """A missing weight is 1, a probability becomes its logit, an integer and its text are the same id."""
    logits = np.array([0.5, -1.0, 0.25, 2.0])
    other = rows(item_id=["2", "4", "b", "2"], weight=[1.0, 2.0, 0.5, 0.0])
    old = rows(item_id=[1, 2, 3, 4], probability=1 / (1 + np.exp(-logits))).drop_columns(["logit"])
    same = rows(item_id=["1", "2", "3", "4"], weight=[1.0] * 4)
    for name, table in (("a", old), ("b", other), ("c", same)):
        pq.write_table(table, tmp_path / f"{name}.parquet")
    found, expected = (
        InteractionLog.read([tmp_path / f"{first}.parquet", tmp_path / "b.parquet"]) for first in "ac"
    )
    assert found.items.to_pylist() == expected.items.to_pylist() == ["1", "2", "3", "4", "b"]
    np.testing.assert_allclose(found.logit, expected.logit, rtol=1e-12)
    for column in ("weight", "item_codes", "label"):
        np.testing.assert_array_equal(getattr(found, column), getattr(expected, column))


def test_renaming_a_missing_column_is_refused():
    from slc_ops.rows.reading import TableSource

    with pytest.raises(InputError, match="no column pid"):
        InteractionLog(TableSource(rows()), rename={"item_id": "pid"})
    with pytest.raises(InputError, match="cannot rename to item"):
        InteractionLog(TableSource(rows()), rename={"item": "item_id"})


def test_the_memory_setting_must_be_a_number(monkeypatch):
    monkeypatch.setenv("SLC_OPS_MEMORY_MB", "lots")
    with pytest.raises(SettingsError, match="SLC_OPS_MEMORY_MB"):
        InteractionLog.from_table(rows())
    monkeypatch.setenv("SLC_OPS_MEMORY_MB", "0")
    assert InteractionLog.from_table(rows()).logit.tolist() == [0.5, -1.0, 0.25, 2.0]


def test_the_table_of_a_log_round_trips():
    log = InteractionLog.from_table(rows(weight=[1.0, 2.0, 0.5, 0.0]))
    assert InteractionLog.from_table(log.as_table()).digest() == log.digest()


@pytest.mark.parametrize("column", ["time", "user_codes"])
def test_concurrent_requests_for_a_column_read_it_once(column):
    class Slow(TableSource):
        asked = 0

        def batches(self, columns):
            type(self).asked += 1
            sleep(0.05)
            yield from super().batches(columns)

    log = InteractionLog(Slow(rows()))
    Slow.asked = 0
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: getattr(log, column).tolist(), range(4)))
    assert found == [{"time": [3, 1, 2, 5], "user_codes": [0, 1, 0, 2]}[column]] * 4
    assert Slow.asked == 1


@pytest.mark.parametrize("column", ["item_id", "user_id"])
@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_ids_that_are_not_utf8_are_refused(tmp_path: Path, column: str, suffix: str) -> None:
    """Arrow accepts them, and the first consumer fails."""
    values = {"item_id": ["a", "b"], "user_id": ["u", "v"], "label": [0, 1], "logit": [0.1, 0.2]}
    bad = pa.array([b"x", b"\xff\xfe"]).view(pa.string())
    table = pa.table({name: bad if name == column else pa.array(each) for name, each in values.items()})
    path = tmp_path / f"rows{suffix}"
    (pq.write_table if suffix == ".parquet" else pyarrow.feather.write_feather)(table, path)
    with pytest.raises(InputError, match=f"column {column} has text that is not UTF-8"):
        list(InteractionLog.read(path).user_ids())
