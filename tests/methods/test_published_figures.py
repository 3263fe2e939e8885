"""The ladder compared with an independent implementation, and with the paper where its data are available."""

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from slc_ops.base.methods import METHODS
from slc_ops.evidence.compare import compare
from slc_ops.methods import fit
from slc_ops.paper.sweeps import mean_label_logit, prior_variance_sweep, with_constant_backbone
from slc_ops.rows.interactions import InteractionLog
from tests.methods import independent
from tests.real_data import DATA, needs_real_rows

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

# --- a generated pair, compared with the independent implementation -------------------------------------


@pytest.fixture(scope="module")
def generated():
    """9,000 + 3,000 rows of a backbone that is too steep and ignores items with drifting bias."""
    rng = np.random.default_rng(17)
    items, rows = 80, 12_000
    item = np.minimum(rng.geometric(3 / items, rows) - 1, items - 1)
    time = np.sort(rng.integers(0, 1000, rows))
    bias, drift = rng.normal(0, 0.8, items)[item], rng.normal(0, 0.5, items)[item] * (time / 1000 - 0.5)
    logit = rng.normal(0.2, 1.3, rows)
    chance = 1 / (1 + np.exp(-(0.7 * logit - 0.3 + bias + drift)))
    table = pa.table(
        {
            "event_time": time,
            "item_id": [f"item-{code:02d}" for code in item],
            "label": (rng.random(rows) < chance).astype(np.int8),
            "logit": logit,
        }
    )
    return table.slice(0, 9000), table.slice(9000)


@pytest.fixture(scope="module")
def logs(generated):
    return [InteractionLog.from_table(table) for table in generated]


def nll(label, p):
    """The NLL of the contract, with clipped probabilities."""
    return log_loss(label, np.clip(p, 1e-6, 1 - 1e-6))


@pytest.fixture(scope="module")
def second(generated):
    return independent.predictions(*(table.to_pandas() for table in generated))


def test_all_methods_but_four_have_a_second_implementation(second):
    # These have tests of their own: test_temporal_methods.py and one of the method's name.
    assert set(second) == set(LADDER) == set(METHODS) - {"naive", "platt_eb", "slc_eb", "slc_mix"}


@pytest.mark.parametrize("method", LADDER)
def test_every_probability_equals_that_of_the_second_implementation(method, logs, second):
    np.testing.assert_allclose(fit(method, logs[0]).apply(logs[1]), second[method], atol=1e-6)


def test_the_ladder_agrees_with_the_second_implementation(generated, logs, second):
    label = generated[1]["label"].to_numpy()
    found = compare(*logs, methods=list(LADDER)).methods
    for name, p in second.items():
        assert found[name].metrics["auc"] == pytest.approx(roc_auc_score(label, p), abs=1e-6), name
        assert found[name].metrics["nll"] == pytest.approx(nll(label, p), abs=1e-6), name
    # The figures differ between methods: equal figures would prove nothing.
    assert len({round(scored.metrics["nll"], 5) for scored in found.values()}) == len(LADDER)


def test_the_sweep_agrees_with_the_second_implementation(generated, logs):
    calibration, test = (table.to_pandas() for table in generated)
    rate = calibration["label"].mean()
    constant = np.log(rate / (1 - rate))
    flat = [rows.assign(logit=constant) for rows in (calibration, test)]
    assert mean_label_logit(logs[0]) == pytest.approx(constant, abs=1e-12)
    rows = prior_variance_sweep(*(with_constant_backbone(log, constant) for log in logs), values=list(SWEEP))
    for row in rows:
        p = independent.slc(*flat, row["value"])
        assert row["auc"] == pytest.approx(roc_auc_score(test["label"], p), abs=1e-6)
        assert row["nll"] == pytest.approx(nll(test["label"], p), abs=1e-6)


# --- the paper's rows ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair():
    return [InteractionLog.read(DATA / f"as17_pfa.{part}.parquet") for part in ("calibration", "test")]


@needs_real_rows
def test_the_ladder_agrees_with_the_independent_implementation(pair):
    found = compare(*pair, methods=list(LADDER)).methods
    for name, (auc, nll) in LADDER.items():
        assert found[name].metrics["auc"] == pytest.approx(auc, abs=1e-4), name
        assert found[name].metrics["nll"] == pytest.approx(nll, abs=1e-4), name


@needs_real_rows
def test_the_sweep_agrees_with_the_table_of_the_paper(pair):
    logit = mean_label_logit(pair[0])
    flat = [with_constant_backbone(log, logit) for log in pair]
    for row in prior_variance_sweep(*flat, values=list(SWEEP)):
        auc, nll = SWEEP[row["value"]]
        assert row["auc"] == pytest.approx(auc, abs=2e-4)
        assert row["nll"] == pytest.approx(nll, abs=2e-4)
