"""The paper's analyses on real ASSISTments 2017 pairs with DKT logits (if the data are available)."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slc_ops.paper.analyses import analyse
from slc_ops.rows.interactions import InteractionLog, read_history

DATA = Path(os.environ.get("SLC_OPS_TEST_DATA", ""))

pytestmark = pytest.mark.skipif(
    not (DATA / "as17_dkt.test.parquet").is_file(),
    reason="SLC_OPS_TEST_DATA names no folder with as17_dkt.{calibration,test}.parquet",
)

# AUC and NLL: known figures of these rows, and the paper's DKT, another network with three seeds.
KNOWN = {"platt": (0.6982, 0.605), "rescal_iso": (0.7233, 0.590), "slc": (0.7344, 0.582),
         "slc_t": (0.7332, 0.583), "slc_eb": (0.7349, 0.581)}  # fmt: skip
PAPER = {"platt": (0.6991, 0.605), "rescal_iso": (0.7221, 0.590), "slc": (0.7325, 0.583),
         "slc_t": (0.7312, 0.585)}  # fmt: skip


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    rows = pq.read_table(DATA / "as17.interactions.parquet")
    user, time = rows["user_id"].to_numpy(), rows["event_time"].to_numpy()
    last = np.zeros(user.max() + 1, time.dtype)
    np.maximum.at(last, user, time)
    path = tmp_path_factory.mktemp("as17") / "history.parquet"
    pq.write_table(rows.filter(pa.array(time <= np.floor(0.6 * last[user] + 1e-9))), path)
    pair = [InteractionLog.read(DATA / f"as17_dkt.{part}.parquet") for part in ("calibration", "test")]
    return analyse(*pair, history=read_history(path, {}))


def test_the_ladder_gives_the_known_figures_close_to_the_papers(tables):
    found = {row["method"]: row for row in tables["ladder"]}
    for name, (auc, nll) in KNOWN.items():
        assert found[name]["auc"] == pytest.approx(auc, abs=1e-4), name
        assert found[name]["nll"] == pytest.approx(nll, abs=6e-4), name
    for name, (auc, nll) in PAPER.items():
        assert found[name]["auc"] == pytest.approx(auc, abs=0.0025), name
        assert found[name]["nll"] == pytest.approx(nll, abs=0.0025), name


def test_the_gain_over_rescal_iso_falls_with_density_as_in_table_5(tables):
    gains = {row["slice"]: row["delta_auc"] for row in tables["density"] if row["against"] == "rescal_iso"}
    for name, points in {"sparse": 4.14, "medium": 2.36, "dense": 0.24}.items():
        assert 100 * gains[name] == pytest.approx(points, abs=0.2), name


def test_rescal_gains_about_the_same_in_every_time_slice_as_in_figure_1(tables):
    gains = [100 * (row["rescal_auc"] - row["base_auc"]) for row in tables["over_time"]]
    assert np.mean(gains) == pytest.approx(2.6, abs=0.2)
    assert min(gains) > 2
