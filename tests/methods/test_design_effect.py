"""The design effect: known answers, and what the lines make of it."""

import numpy as np
import pyarrow as pa
import pytest

from slc_ops.methods import fit_prepared
from slc_ops.methods.fitting import design_effect as module
from slc_ops.methods.fitting import prior_sample
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.design_effect import design_effect, ratio
from slc_ops.rows.interactions import InteractionLog


def games(size, games=60, seed=1, shift=0.0):
    """Rows of games whose rows share logit and label, as the frozen model predicts them."""
    rng = np.random.default_rng(seed)
    logit = rng.normal(0, 1, games)
    label = (rng.random(games) < 1 / (1 + np.exp(-logit - shift))).astype(np.int8)
    game = np.repeat(np.arange(games), size)
    return {"item_id": game % 5, "user_id": game, "label": label[game], "logit": logit[game]}


def calibration(columns, starts=()):
    columns = {"event_time": np.arange(len(columns["label"]), dtype=np.float64), **columns}
    return Calibration(InteractionLog.from_table(pa.table(columns)), starts=starts)


@pytest.mark.parametrize("size", [4, 20, 170])
def test_rows_that_share_their_label_count_once(size):
    found, pairs = design_effect(calibration(games(size))), design_effect(calibration(games(2)))
    assert found == pytest.approx(size / 2 * pairs, rel=1e-6)
    assert 0.8 * size < found < 1.2 * size


@pytest.mark.parametrize("number", [60, 3, 2])
def test_it_is_the_ratio_of_the_clustered_to_the_plain_variance(number):
    # An independent formula: the variance of the mean label of games, at a constant logit.
    columns = games(20, games=number, seed=2) | {"logit": np.zeros(20 * number)}
    rate = columns["label"].reshape(number, 20)[:, 0]
    assert design_effect(calibration(columns)) == pytest.approx(
        20 * np.var(rate, ddof=1) / (rate.mean() * (1 - rate.mean()))
    )


def test_without_users_with_one_user_and_with_many_rows_it_is_one(monkeypatch):
    columns = games(20)
    assert design_effect(calibration({k: v for k, v in columns.items() if k != "user_id"})) == 1
    assert design_effect(calibration(columns | {"user_id": np.zeros(1200, int)})) == 1
    monkeypatch.setattr(module, "MANY_ROWS", 1200)
    assert design_effect(calibration(columns)) > 10
    monkeypatch.setattr(module, "MANY_ROWS", 1199)
    assert design_effect(calibration(columns)) == 1


def test_separated_labels_and_rows_that_cannot_be_sampled_count_as_independent(monkeypatch):
    separated = games(4) | {"logit": np.where(games(4)["label"], 1.0, -1.0)}
    assert design_effect(calibration(separated)) == 1
    # One user has all rows, and nothing else divides them.
    monkeypatch.setattr(prior_sample, "PRIOR_ROWS", 100)
    rows = pa.table(games(20) | {"user_id": np.zeros(1200, int)})
    assert design_effect(Calibration(InteractionLog.from_table(rows))) == 1


def test_it_is_never_below_one():
    assert ratio(2 * np.eye(2), np.diag([6.0, 10.0])) == 4
    assert ratio(np.eye(2), 0.1 * np.eye(2)) == 1
    assert ratio(np.full((2, 2), np.nan), np.eye(2)) == 1
    assert ratio(np.zeros((2, 2)), np.eye(2)) == 1


def test_a_row_of_weight_two_equals_a_row_written_twice():
    columns = games(20)
    twice = {name: np.repeat(values, 2) for name, values in columns.items()}
    weighted = columns | {"weight": np.full(1200, 2.0)}
    assert design_effect(calibration(weighted)) == pytest.approx(design_effect(calibration(twice)))


@pytest.mark.parametrize("starts", [(), (0.0, 5000.0)])
def test_platt_eb_stays_near_a_right_model_whose_rows_share_labels(starts):
    found = {}
    for known in (True, False):
        columns = games(170) if known else games(170) | {"user_id": np.arange(60 * 170)}
        link = fit_prepared("platt_eb", calibration(columns, starts)).link
        found[known] = abs(link.a - 1) + abs(link.b0)
    assert found[True] < 0.3 * found[False]


def test_platt_eb_still_corrects_a_clearly_wrong_model():
    columns = games(20, games=400, shift=2.0)
    assert fit_prepared("platt_eb", calibration(columns)).link.b0 == pytest.approx(
        fit_prepared("platt", calibration(columns)).link.b0, abs=0.05
    )
