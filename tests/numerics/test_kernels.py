from functools import partial

import numpy as np
import pytest
from scipy.special import expit

from slc_ops.numerics.kernels import SLICE_ROWS, RowsAt, RowSums, Sums, key_sums, row_sums, sigmoid
from slc_ops.rows.rows import Rows


def rows(n: int, *, weight: bool = False, kind: type = np.float64, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    return Rows(
        rng.integers(0, 7, n).astype(np.int32),
        rng.integers(0, 2, n).astype(np.int8),
        rng.normal(0, 3, n).astype(kind),
        rng.random(n) if weight else None,
    )


def sums_of(keys: np.ndarray, sample: Rows, n_keys: int = 7) -> Sums:
    return key_sums(keys, n_keys, sample.label, sample.logit, sample.weight)


def test_the_sigmoid_is_exact_in_both_tails():
    eta = np.array([-700.0, -40.0, -1.0, 0.0, 1.0, 40.0, 700.0])
    assert np.allclose(sigmoid(eta), expit(eta), rtol=1e-14, atol=0)
    assert sigmoid(np.array([-1e6, 1e6])).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("weight", [False, True])
def test_sums_per_key_equal_a_plain_loop(weight):
    sample = rows(500, weight=weight)
    found = sums_of(sample.codes, sample)
    for key in range(7):
        mine = sample.codes == key
        w = sample.weight[mine] if weight else np.ones(mine.sum())
        p = expit(sample.logit[mine])
        expected = [w.sum(), (w * sample.label[mine]).sum(), (w * p).sum(), (w * p * (1 - p)).sum()]
        assert [found.n[key], found.y[key], found.p[key], found.fisher[key]] == pytest.approx(
            expected, rel=1e-12
        )


def test_sums_per_key_are_exact_under_cancellation():
    saturated = Rows(np.zeros(2, np.int32), np.array([0, 1], np.int8), np.array([-690.0, 690.0]))
    found = sums_of(saturated.codes, saturated, 1)
    assert found.fisher[0] == pytest.approx(2 * np.exp(-690.0), rel=1e-12)
    assert (found.n[0], found.y[0], found.p[0]) == (2.0, 1.0, 1.0)


def test_sums_of_two_halves_add_up_to_the_sums_of_all_rows():
    sample = rows(3 * SLICE_ROWS + 5)
    keys = sample.codes.astype(np.intp)
    half = len(sample) // 2

    def part(span: slice) -> Rows:
        return Rows(sample.codes[span], sample.label[span], sample.logit[span])

    total = sums_of(keys[:half], part(slice(None, half)))
    total.merge(sums_of(keys[half:], part(slice(half, None))))
    whole = sums_of(keys, sample)
    for name in ("n", "y", "p", "fisher"):
        assert np.allclose(getattr(total, name), getattr(whole, name), rtol=1e-13)


def at(sample: Rows, columns: list[np.ndarray], eta: np.ndarray, part: slice) -> RowsAt:
    weight = None if sample.weight is None else sample.weight[part]
    few = [column[part] for column in columns]
    return RowsAt(few, eta[part], np.exp(-np.abs(eta[part])), sample.label[part], weight)


@pytest.mark.parametrize("weight", [False, True])
def test_row_sums_are_the_likelihood_and_its_derivatives(weight):
    sample = rows(1300, weight=weight, seed=3)
    offset = np.random.default_rng(1).normal(size=7)
    columns = [sample.logit, np.random.default_rng(2).normal(size=1300)]
    w = sample.weight if weight else np.ones(1300)

    def eta(beta: np.ndarray, shift: np.ndarray) -> np.ndarray:
        return beta[0] * columns[0] + beta[1] * columns[1] + shift[sample.codes]

    def sums(beta: np.ndarray, shift: np.ndarray) -> RowSums:
        return row_sums(1300, 2, partial(at, sample, columns, eta(beta, shift)), sample.codes, 7)

    def loss(beta: np.ndarray, shift: np.ndarray) -> float:
        here = eta(beta, shift)
        return float(np.sum(w * (np.logaddexp(0, here) - sample.label * here)))

    beta, step = np.array([0.7, -0.2]), 1e-5
    found = sums(beta, offset)
    assert found.nll == pytest.approx(loss(beta, offset), rel=1e-13)
    for i in range(2):
        change = step * np.eye(2)[i]
        slope = (loss(beta + change, offset) - loss(beta - change, offset)) / (2 * step)
        assert found.pull[i] == pytest.approx(slope, abs=1e-4)
        ahead, behind = sums(beta + change, offset), sums(beta - change, offset)
        assert np.allclose(found.square[i], (ahead.pull - behind.pull) / (2 * step), atol=1e-5)
        assert np.allclose(found.cross[i], (ahead.residual - behind.residual) / (2 * step), atol=1e-5)
    for item in range(7):
        change = step * np.eye(7)[item]
        slope = (loss(beta, offset + change) - loss(beta, offset - change)) / (2 * step)
        assert found.residual[item] == pytest.approx(slope, abs=1e-4)
        ahead, behind = sums(beta, offset + change), sums(beta, offset - change)
        assert found.fisher[item] == pytest.approx(
            (ahead.residual - behind.residual)[item] / (2 * step), abs=1e-5
        )
    together = row_sums(1300, 2, partial(at, sample, columns, eta(beta, offset)), None, 1)
    assert together.fisher == pytest.approx([found.fisher.sum()])
    assert together.cross[:, 0] == pytest.approx(found.cross.sum(axis=1))


@pytest.mark.parametrize("weight", [None, np.ones(4)])
def test_the_likelihood_of_saturated_logits_is_exact(weight):
    eta = np.array([700.0, -700.0, 700.0, -700.0])
    sample = Rows(np.zeros(4, np.int32), np.array([1, 0, 0, 1], np.int8), eta, weight)
    found = row_sums(4, 1, partial(at, sample, [eta], eta), None, 1)
    assert found.nll == 1400.0
    assert all(np.isfinite(value).all() for value in vars(found).values())


def test_float32_logits_are_summed_in_float64():
    small = rows(400, kind=np.float32)
    wide = Rows(small.codes, small.label, small.logit.astype(np.float64))
    keys = small.codes.astype(np.intp)
    assert np.array_equal(sums_of(keys, small).p, sums_of(keys, wide).p)
