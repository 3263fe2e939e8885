import numpy as np
import pytest

from slc_ops.numerics.kernels import SLICE_ROWS
from slc_ops.numerics.time_bins import time_bin
from slc_ops.rows.rows import Rows
from slc_ops.rows.selection import quantile_edges


def edges_of(time: np.ndarray, bins: int, weight: np.ndarray | None = None, pieces: int = 1) -> np.ndarray:
    zeros = np.zeros(len(time))
    rows = Rows(zeros.astype(np.int32), zeros.astype(np.int8), zeros, weight, time)

    def over_pieces(kernel):
        first, *others = (kernel(rows.chosen(part)) for part in np.array_split(np.arange(len(time)), pieces))
        for part in others:
            first.merge(part)
        return first

    return quantile_edges(over_pieces, bins)


@pytest.mark.parametrize("kind", ["uniform", "normal", "integers", "outlier"])
@pytest.mark.parametrize("bins", [2, 10, 57])
def test_edges_are_order_statistics(kind, bins):
    rng = np.random.default_rng(3)
    time = {
        "uniform": rng.random(5000) * 1e9,
        "normal": rng.normal(0, 1, 5000),
        "integers": rng.integers(0, 40, 5000).astype(float),
        "outlier": np.append(rng.random(4999), 1e12),
    }[kind]
    shares = np.arange(1, bins) / bins
    inner = np.quantile(time, shares, method="inverted_cdf")
    expected = np.unique(np.concatenate([[time.min()], inner, [time.max()]]))
    assert edges_of(time, bins, pieces=3).tolist() == expected.tolist()


def test_a_weight_of_three_sets_edges_like_three_rows():
    rng = np.random.default_rng(5)
    time, weight = rng.normal(size=400), rng.integers(0, 4, 400).astype(float)
    repeated = np.repeat(time, weight.astype(int))
    assert edges_of(time, 7, weight).tolist() == edges_of(repeated, 7).tolist()


def test_bins_have_equal_counts():
    time = np.random.default_rng(1).permutation(10_000).astype(float)
    counts = np.bincount(time_bin(time, edges_of(time, 10)))
    assert counts.tolist() == [1000] * 10


def test_tied_edges_are_merged():
    time = np.array([0.0] * 50 + [1.0] * 50)
    edges = edges_of(time, 10)
    assert edges.tolist() == [0.0, 1.0]
    assert set(time_bin(time, edges)) == {0}


def test_a_single_timestamp_gives_one_bin():
    edges = edges_of(np.full(5, 7.0), 10)
    assert len(edges) == 2
    assert edges[0] == 7.0 < edges[1]
    assert time_bin(np.array([6.0, 7.0, 8.0]), edges).tolist() == [0, 0, 0]


def test_rows_before_the_first_and_after_the_last_edge_use_the_outer_bins():
    edges = np.array([0.0, 1.0, 2.0, 3.0])
    assert time_bin(np.array([-9.0, 99.0]), edges).tolist() == [0, 2]


def test_many_bins_are_searched_correctly():
    rng = np.random.default_rng(2)
    time = rng.integers(0, 300, 4000).astype(float)
    edges = np.unique(rng.integers(0, 300, 60)).astype(float)
    expected = [sum(timestamp > edge for edge in edges[1:-1]) for timestamp in time]
    assert time_bin(time, edges).tolist() == expected


def test_a_nan_time_does_not_affect_other_rows():
    time = np.array([0.5, np.nan, 2.5, 1.5])
    assert time_bin(time, np.array([0.0, 1.0, 2.0, 3.0]))[[0, 2, 3]].tolist() == [0, 2, 1]


@pytest.mark.parametrize("order", ["sorted", "reversed", "shuffled"])
def test_the_row_order_does_not_change_the_bins(order):
    rng = np.random.default_rng(4)
    time = np.sort(rng.normal(0, 1e6, 3 * SLICE_ROWS + 11))
    time = {"sorted": time, "reversed": time[::-1], "shuffled": rng.permutation(time)}[order]
    edges = edges_of(time, 9, pieces=2)
    expected = np.quantile(time, np.arange(10) / 9, method="inverted_cdf")
    assert edges.tolist() == expected.tolist()
    assert time_bin(time, edges).tolist() == np.searchsorted(edges[1:-1], time).tolist()
