import numpy as np
import pytest

from slc_ops.numerics.smoother import smooth


def cells(items: int, bins: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    W = rng.gamma(1.0, 3.0, (items, bins))
    return rng.normal(0, 1, (items, bins)), W, (rng.random((items, bins)) < 0.7)


def one_item_at_a_time(z, W, seen, q, P0):
    """The textbook recursion for a single series."""
    level, variance = np.empty_like(z), np.empty_like(z)
    for i in range(len(z)):
        filtered, predicted = [], []
        u, P = 0.0, P0
        for t in range(z.shape[1]):
            P = P + q
            predicted.append(P)
            if seen[i, t]:
                K = P / (P + 1 / W[i, t])
                u, P = u + K * (z[i, t] - u), (1 - K) * P
            filtered.append((u, P))
        level[i, -1], variance[i, -1] = filtered[-1]
        for t in range(z.shape[1] - 2, -1, -1):
            u, P = filtered[t]
            J = P / predicted[t + 1]
            level[i, t] = u + J * (level[i, t + 1] - u)
            variance[i, t] = P + J**2 * (variance[i, t + 1] - predicted[t + 1])
    return level, variance


@pytest.mark.parametrize("bins", [1, 2, 10, 100])
def test_all_items_at_once_equal_one_item_at_a_time(bins):
    z, W, seen = cells(60, bins)
    found = smooth(z, W, seen, q=0.01, P0=1.0)
    level, variance = one_item_at_a_time(z, W, seen, 0.01, 1.0)
    assert np.allclose(found[0], level, rtol=0, atol=1e-13)
    assert np.allclose(found[1], variance, rtol=0, atol=1e-13)


def test_an_independent_library_gives_the_same_levels_and_variances():
    kalman = pytest.importorskip("filterpy.kalman")
    z, W, _ = cells(20, 12, seed=4)
    found = smooth(z, W, np.ones_like(W, bool), q=0.05, P0=2.0)
    for i in range(len(z)):
        filter_ = kalman.KalmanFilter(dim_x=1, dim_z=1)
        filter_.F = filter_.H = np.eye(1)
        filter_.x, filter_.P, filter_.Q = np.zeros((1, 1)), np.array([[2.0]]), np.array([[0.05]])
        mean, covariance, _, _ = filter_.batch_filter(z[i][:, None], Rs=[np.array([[1 / w]]) for w in W[i]])
        level, variance, _, _ = filter_.rts_smoother(mean, covariance)
        assert np.allclose(found[0][i], level.ravel(), atol=1e-12)
        assert np.allclose(found[1][i], variance.ravel(), atol=1e-12)


def test_without_process_noise_the_smoother_is_the_static_shrinkage_estimator():
    z, W, seen = cells(50, 8, seed=2)
    found = smooth(z, W, seen, q=0.0, P0=1.5)
    information = np.where(seen, W, 0.0)
    static = (information * z).sum(1) / (1 / 1.5 + information.sum(1))
    assert np.allclose(found[0], static[:, None], atol=1e-12)
    assert np.allclose(found[1], 1 / (1 / 1.5 + information.sum(1))[:, None], atol=1e-12)


def test_an_unseen_item_stays_at_zero_with_its_prior_variance():
    found = smooth(np.ones((1, 3)), np.ones((1, 3)), np.zeros((1, 3), bool), q=0.1, P0=1.0)
    assert found[0].tolist() == [[0.0, 0.0, 0.0]]
    assert np.allclose(found[1], [[1.1, 1.2, 1.3]])


def test_smoothing_never_adds_variance():
    z, W, seen = cells(40, 9, seed=7)
    found = smooth(z, W, seen, q=0.02, P0=1.0)
    assert (found[1] > 0).all()
    assert (found[1] <= 1.0 + 0.02 * np.arange(1, 10) + 1e-12).all()
