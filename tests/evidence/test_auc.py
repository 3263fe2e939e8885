"""The AUC against its definition and against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from slc_ops.base.errors import InputError
from slc_ops.evidence.auc import BLOCK, Scored, auc, placed, placed_cells
from slc_ops.evidence.metrics import metrics_of


def by_definition(label, score, weight=None):
    """Every (positive, negative) pair, one by one."""
    weight = np.ones(len(label)) if weight is None else weight
    won = total = 0.0
    for i in np.flatnonzero(label == 1):
        for j in np.flatnonzero(label == 0):
            pair = weight[i] * weight[j]
            total += pair
            won += pair * (1.0 if score[i] > score[j] else 0.5 if score[i] == score[j] else 0.0)
    return won / total


@pytest.fixture
def rows():
    rng = np.random.default_rng(3)
    score = np.round(rng.normal(size=300), 1)  # negative scores, zeros and many ties
    score[::17] = -0.0
    label = (rng.random(300) < 1 / (1 + np.exp(-score))).astype(float)
    return label, score, rng.integers(0, 4, 300).astype(float)


def test_the_auc_is_the_share_of_ordered_pairs_with_ties_counting_half(rows):
    label, score, _ = rows
    assert auc(label, score).value == pytest.approx(by_definition(label, score), abs=1e-15)


def test_the_share_of_tied_pairs_is_counted(rows):
    label, score, _ = rows
    pairs = score[label == 1][:, None] == score[label == 0][None, :]
    assert auc(label, score).tied == pytest.approx(pairs.mean(), abs=1e-15)


def test_the_weight_of_a_pair_is_the_product_of_its_row_weights(rows):
    label, score, weight = rows
    assert auc(label, score, weight).value == pytest.approx(by_definition(label, score, weight), abs=1e-13)


def test_weight_two_equals_a_duplicated_row_and_weight_zero_a_removed_row(rows):
    label, score, weight = rows
    times = weight.astype(int)
    expanded = auc(np.repeat(label, times), np.repeat(score, times))
    weighted = auc(label, score, weight)
    assert weighted.value == pytest.approx(expanded.value, abs=1e-13)
    assert weighted.tied == pytest.approx(expanded.tied, abs=1e-13)


@pytest.mark.parametrize("decimals", [2, 3, 17])
def test_it_agrees_with_scikit_learn_across_blocks_and_threads(decimals):
    rng = np.random.default_rng(decimals)
    rows = 2 * BLOCK + 12_345
    score = np.round(rng.normal(size=rows), decimals)
    label = rng.random(rows) < 1 / (1 + np.exp(-score))
    assert auc(label, score).value == pytest.approx(roc_auc_score(label, score), abs=1e-12)
    p = 1 / (1 + np.exp(-score))
    assert auc(label, p).value == pytest.approx(roc_auc_score(label, p), abs=1e-12)


def test_an_increasing_map_of_the_score_does_not_change_the_auc(rows):
    label, score, _ = rows
    assert auc(label, 3 * score - 7).value == auc(label, score).value


def test_reversing_the_score_gives_one_minus_the_auc(rows):
    label, score, _ = rows
    assert auc(label, -score).value == pytest.approx(1 - auc(label, score).value, abs=1e-15)


def test_the_input_is_not_changed(rows):
    label, score, _ = rows
    before = label.copy(), score.copy()
    auc(label, score)
    assert np.array_equal(before[0], label)
    assert np.array_equal(before[1], score)


def test_integer_boolean_and_single_precision_columns_are_accepted(rows):
    label, score, _ = rows
    expected = auc(label, score.astype(np.float32)).value
    assert auc(label.astype(bool), score.astype(np.float32)).value == expected
    assert auc(label.astype(np.int8), score.astype(np.float32)).value == expected


@pytest.mark.parametrize(
    ("label", "weight", "reason"),
    [
        ([1, 1], None, "all 2 labels are 1"),
        ([0, 0, 0], None, "all 3 labels are 0"),
        ([], None, "there are no rows"),
        ([0, 1, 1], [1.0, 0.0, 0.0], "all 1 labels are 0"),
    ],
)
def test_one_class_has_no_auc_and_gives_a_reason(label, weight, reason):
    found = auc(
        np.array(label, dtype=float), np.zeros(len(label)), None if weight is None else np.array(weight)
    )
    assert found.value is None
    assert reason in found.reason


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_not_numbers_are_refused(bad):
    with pytest.raises(InputError, match="finite"):
        auc(np.array([0, 1]), np.array([0.1, bad]))


def test_placement_values_of_either_class_average_to_the_auc(rows):
    label, score, weight = (each[np.argsort(rows[1])] for each in rows)
    positive = label == 1
    V, found = placed(Scored(score, positive, weight))
    pairs = weight[positive].sum() * weight[~positive].sum()
    assert found == auc(*rows)
    assert (weight * V)[positive].sum() / pairs == pytest.approx(found.value, abs=1e-13)
    assert (weight * V)[~positive].sum() / pairs == pytest.approx(found.value, abs=1e-13)


def test_equal_scores_across_a_block_count_half(rows):
    score = np.repeat([0.1, 0.5, 0.9], [BLOCK - 5, 20, BLOCK])
    label = np.random.default_rng(0).integers(0, 2, score.size)
    assert auc(label, score).value == pytest.approx(roc_auc_score(label, score), abs=1e-12)


def test_weights_that_are_all_two_are_not_treated_as_one():
    label, score = np.array([0, 1, 0, 1, 1]), np.array([0.1, 0.4, 0.4, 0.8, 0.2])
    two = np.broadcast_to(2.0, 5)
    assert metrics_of(label, score, two).weight == 10
    assert auc(label, score, two) == auc(label, score)


def test_the_cells_of_a_grid_count_as_their_rows_written_out():
    mass = np.random.default_rng(5).integers(0, 4, 24)  # a cell's negatives, then its positives
    score, label = np.repeat(np.arange(24) // 2, mass), np.repeat(np.arange(24) % 2, mass)
    V, area = placed_cells(mass)
    written, expected = placed(Scored(score, label == 1, np.ones(score.size)))
    assert area.value == pytest.approx(expected.value, abs=1e-15)
    assert area.tied == pytest.approx(expected.tied, abs=1e-15)
    assert np.repeat(V, mass).tolist() == written.tolist()
