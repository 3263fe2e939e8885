"""Figures of the paper and of an independent implementation on real rows (where the data set is at hand)."""

import os
from pathlib import Path

import pytest

from slc_ops.evidence.compare import compare
from slc_ops.evidence.evaluate import Metering
from slc_ops.paper.sweeps import mean_label_logit, prior_variance_sweep, with_constant_backbone
from slc_ops.rows.interactions import InteractionLog

DATA = Path(os.environ.get("SLC_OPS_TEST_DATA", ""))

pytestmark = pytest.mark.skipif(
    not (DATA / "as17_pfa.test.parquet").is_file(),
    reason="SLC_OPS_TEST_DATA names no folder with as17_pfa.{calibration,test}.parquet",
)

# AUC and NLL of an independent implementation.
LADDER = {
    "base": (0.6352, 0.6363),
    "platt": (0.6352, 0.6364),
    "temperature": (0.6352, 0.6364),
    "isotonic": (0.6351, 0.6363),
    "histogram": (0.6319, 0.6368),
    "platt_time": (0.6371, 0.6363),
    "rescal": (0.6803, 0.6168),
    "rescal_iso": (0.6802, 0.6163),
    "ridge": (0.6948, 0.6077),
    "slc": (0.6945, 0.6076),
    "slc_iso": (0.6943, 0.6089),
    "slc_t": (0.6935, 0.6084),
}
# Table "Sensitivity of SLC to prior variance" of the paper: constant backbone.
SWEEP = {
    0.01: (0.6445, 0.6522),
    0.1: (0.6504, 0.6348),
    0.5: (0.6532, 0.6315),
    1.0: (0.6537, 0.6315),
    5.0: (0.6535, 0.6329),
    10.0: (0.6534, 0.6338),
    100.0: (0.6533, 0.6354),
}


@pytest.fixture(scope="module")
def pair():
    return [InteractionLog.read(DATA / f"as17_pfa.{part}.parquet") for part in ("calibration", "test")]


def test_the_ladder_meets_the_independent_implementation(pair):
    found = compare(*pair, Metering(), methods=list(LADDER)).methods
    for name, (auc, nll) in LADDER.items():
        assert found[name].metrics["auc"] == pytest.approx(auc, abs=1e-4), name
        assert found[name].metrics["nll"] == pytest.approx(nll, abs=1e-4), name


def test_the_sweep_meets_the_table_of_the_paper(pair):
    logit = mean_label_logit(pair[0])
    flat = [with_constant_backbone(log, logit) for log in pair]
    for row in prior_variance_sweep(*flat, Metering(), values=list(SWEEP)):
        auc, nll = SWEEP[row["value"]]
        assert row["auc"] == pytest.approx(auc, abs=2e-4)
        assert row["nll"] == pytest.approx(nll, abs=2e-4)
