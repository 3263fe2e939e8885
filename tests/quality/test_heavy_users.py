"""One user has limited weight per item: the excess is scaled down and named."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from slc_ops.base.hashing import column_hashes
from slc_ops.quality.heavy_users import CODE, FILE, Pairs
from slc_ops.rows.interactions import InteractionLog
from tests.quality.lake_bench import Bench


def attack(bench: Bench, rows: int) -> pa.Table:
    """One user answers one item repeatedly, always wrong."""
    week = bench.read()
    item = week["item_id"][0].as_py()
    copied = pa.concat_tables([week.slice(0, 1)] * rows)
    for name, values in {
        "event_id": [f"again-{k}" for k in range(rows)],
        "user_id": ["mallory"] * rows,
        "label": [0] * rows,
        "event_time": [copied["event_time"][0].as_py()] * rows,
    }.items():
        place = copied.schema.get_field_index(name)
        copied = copied.set_column(place, name, pa.array(values, copied.schema.field(place).type))
    bench.write(pa.concat_tables([week, copied]))
    return week.filter(pc.equal(week["item_id"], item))


def pair_weight(path: object, user: str = "mallory") -> float:
    found = pq.read_table(path, columns=["user_id", "weight"])
    return float(pc.sum(found.filter(pc.equal(found["user_id"], user))["weight"]).as_py())


@pytest.mark.faults(
    "one user answers one item 400 times in a week; a row has the weight 1,000",
    "limited to the weight of other users there; the report names user and item",
)
def test_a_user_who_floods_an_item_is_limited_and_named(bench: Bench) -> None:
    others = attack(bench, 400)
    result = bench.validate()
    (finding,) = [each for each in result.findings if each.code == CODE]
    first = pq.read_table(result.result_path.parent / "log.parquet").slice(finding.examples[0]["row"], 1)
    assert first["user_id"].to_pylist() == ["mallory"]
    assert first["item_id"].to_pylist() == [finding.examples[0]["item_id"]]
    assert finding.examples[0]["rows"] == 400
    assert 5 < len(others) < 100  # so the user counts like all others there
    assert finding.examples[0]["times the usual weight"] == 400
    assert pair_weight(result.clean_path) == pytest.approx(len(others))
    log = InteractionLog.read(result.clean_path)
    assert log.n_rows == result.rows
    assert np.sum(log.weight < 1) == 400
    bench.configure(quality={"user_item_limit": None})
    assert CODE not in [each.code for each in bench.validate().findings]


@pytest.mark.faults(
    "one user answers one item 400 times in a week; a row has the weight 1,000",
    "limited to the weight of other users there; the report names user and item",
)
def test_a_row_of_weight_1000_is_limited(bench: Bench) -> None:
    week = bench.read()
    weights = np.ones(len(week))
    weights[7] = 1000.0
    bench.write(week.append_column("weight", pa.array(weights)))
    result = bench.validate()
    assert max(InteractionLog.read(result.clean_path).weight) < 201
    assert CODE in [each.code for each in result.findings]


def test_a_log_of_few_busy_users_has_no_outlier(bench: Bench) -> None:
    week = bench.read()
    place = week.schema.get_field_index("user_id")
    tenants = pa.array([f"tenant-{k % 3}" for k in range(len(week))], week.schema.field(place).type)
    bench.write(week.set_column(place, "user_id", tenants))
    assert CODE not in [each.code for each in bench.validate().findings]


def test_rows_count_like_rows_of_weight_one(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    item = rng.zipf(1.3, 20_000) % 200
    user = np.where(rng.random(20_000) < 0.02, 7, rng.integers(0, 3000, 20_000))
    rows = pa.record_batch({"user_id": user, "item_id": item})
    for name, batch in (("plain", rows), ("ones", rows.append_column("weight", pa.array(np.ones(20_000))))):
        pairs = Pairs()
        pairs.add(batch, column_hashes(batch))
        (tmp_path / name).mkdir()
        pairs.finish(tmp_path / name)
    plain, ones = (pq.read_table(tmp_path / name / FILE) for name in ("plain", "ones"))
    assert 0 < len(plain) < 100
    assert plain.equals(ones)
