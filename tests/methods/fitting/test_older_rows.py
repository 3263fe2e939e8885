"""Rows of the blocks of ``slc_mix``: above a limit, older rows are sampled."""

import numpy as np
import pyarrow as pa
import pytest

from slc_ops.methods import FitOptions, fit_prepared
from slc_ops.methods.fitting import older_rows
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.fitting.older_rows import limited, shares
from slc_ops.methods.fitting.options import Forgetting
from tests.methods.biased_rows import log_of, nll, sigmoid

WINDOWS, ROWS = 12, 2000
FORGET = Forgetting(tuple(float(k) for k in range(WINDOWS)), 4.0)
ALL = FitOptions(effects=("item", "slope", "group", "user"), threads=1)


@pytest.fixture(scope="module")
def tables():
    """Windows of a log with item, group and user effects; a few items have most rows."""
    rng = np.random.default_rng(0)
    item_effect, group_effect, user_effect = (rng.normal(0, 0.7, n) for n in (300, 10, 200))
    found = []
    for window in range(WINDOWS + 1):
        item, user = (300 * rng.random(ROWS) ** 3).astype(int), rng.integers(0, 200, ROWS)
        logit, group = rng.normal(0, 1, ROWS), item % 10
        eta = logit + item_effect[item] + group_effect[group] + user_effect[user]
        label = (rng.random(ROWS) < sigmoid(eta)).astype(np.int8)
        columns = {"item_id": item, "user_id": user, "group_id": [f"g{k}" for k in group], "logit": logit}
        columns |= {"event_time": window + np.arange(ROWS) / ROWS, "label": label}
        found.append(pa.table(columns))
    return found


def memories(tables, order=None):
    """The windows of link, offsets and all blocks, without the last one."""
    found = [pa.concat_tables(tables[-1 - count : -1]) for count in (2, 4, WINDOWS)]
    found[2] = found[2] if order is None else found[2].take(pa.array(order))
    return [
        Calibration(log_of(table), None, ALL, forget)
        for table, forget in zip(found, (None, None, FORGET), strict=True)
    ]


def sample_of(tables, order=None):
    link, _, older = memories(tables, order)
    return limited(older, link, users=True).log


def test_up_to_the_limit_all_rows_are_used(tables):
    link, _, older = memories(tables)
    assert limited(older, link, users=True) is older


def test_without_forgetting_all_rows_are_used(tables, monkeypatch):
    monkeypatch.setattr(older_rows, "MOST_ROWS", 9000)
    link, _, older = memories(tables)
    whole = Calibration(older.log, None, ALL)
    assert limited(whole, link, users=True) is whole


def test_a_quarter_of_the_limit_is_for_older_rows_if_the_links_windows_exceed_it(tables, monkeypatch):
    monkeypatch.setattr(older_rows, "MOST_ROWS", 3000)
    log = sample_of(tables)
    assert np.count_nonzero(log.time >= WINDOWS - 2) == 2 * ROWS
    assert np.count_nonzero(log.time < WINDOWS - 2) == pytest.approx(750, abs=100)


@pytest.mark.parametrize("most", [1, 40, 400, 10_000])
def test_shares_keep_rare_items_whole_and_use_the_limit(most):
    counts = np.random.default_rng(most).integers(0, 60, 30).astype(float)
    kept = shares(counts, most) * counts
    assert kept.sum() == pytest.approx(min(most, counts.sum()))
    cut = kept < counts
    assert np.ptp(kept[cut]) < 1e-9 if cut.any() else most >= counts.sum()
    assert counts[~cut].max(initial=0) <= kept.max()


def test_all_rows_of_the_link_are_used_and_older_ones_are_sampled(tables, monkeypatch):
    monkeypatch.setattr(older_rows, "MOST_ROWS", 9000)
    log = sample_of(tables)
    assert 8500 <= log.n_rows <= 9500
    window = np.floor(log.time).astype(int)
    counts = np.bincount(window, minlength=WINDOWS)
    assert counts[-2:].tolist() == [ROWS, ROWS]
    assert counts[0] < 0.5 * counts[-3] < 0.5 * ROWS
    # Recent rows are weighted by age; each sampled row has weight 1.
    np.testing.assert_allclose(log.weight[window >= 10], FORGET.of(log.time[window >= 10]))
    assert set(log.weight[window < 10]) == {1.0}


def test_frequent_items_are_sampled_more_than_rare_ones(tables, monkeypatch):
    monkeypatch.setattr(older_rows, "MOST_ROWS", 6000)
    whole, log = memories(tables)[2].log, sample_of(tables)
    of_item = {}
    for name, each in (("whole", whole), ("sample", log)):
        old = each.time < WINDOWS - 2
        codes = each.items.take(pa.array(each.item_codes[old])).to_numpy()
        of_item[name] = np.bincount(codes, minlength=300)
    share = of_item["sample"] / np.maximum(of_item["whole"], 1)
    assert share[:5].mean() < 0.5 * share[200:].mean()


def test_the_sample_does_not_depend_on_the_order_of_the_rows(tables, monkeypatch):
    monkeypatch.setattr(older_rows, "MOST_ROWS", 9000)
    order = np.random.default_rng(1).permutation(WINDOWS * ROWS)
    one, other = sample_of(tables), sample_of(tables, order)
    assert sorted(one.time) == sorted(other.time)


def test_the_sample_gives_nearly_the_same_fit_as_all_rows(tables, monkeypatch):
    whole = fit_prepared("slc_mix", *memories(tables))
    monkeypatch.setattr(older_rows, "MOST_ROWS", 9000)
    sampled = fit_prepared("slc_mix", *memories(tables))
    assert set(sampled.effects) == set(whole.effects) == {"item", "group", "user"}
    assert sampled.n_rows < 10_000 < whole.n_rows
    assert sampled.effects["user"].table.num_rows == 200
    later, alone = tables[-1], fit_prepared("slc_eb", *memories(tables)[:2])
    lost, gained = nll(sampled, later) - nll(whole, later), nll(alone, later) - nll(whole, later)
    assert -0.002 < lost < 0.2 * gained
