"""Hyperparameters are tuned within the calibration weeks."""

from pathlib import Path

import numpy as np
import pytest

from slc_ops.evidence.folds import Fold, FoldRows
from slc_ops.evidence.metrics import metrics_of
from slc_ops.evidence.tuning import candidates, tune
from slc_ops.methods import FitOptions
from slc_ops.settings.blocks import Decision
from tests.evidence.worlds import week, write_weeks


def fold(directory, weeks=3, **world):
    """A fold with calibration weeks; its test window is never read."""
    paths = [path for _, path in write_weeks(directory, weeks, **world)]
    return Fold(week(weeks), tuple(paths), Path("is-not-read"))


def test_the_value_with_the_lowest_hold_out_loss_is_chosen(tmp_path):
    from slc_ops.methods import fit

    learned = fold(tmp_path, bias_sd=1.0, items=300, seed=1)
    grid = Decision(prior_vars=(0.001, 0.1, 1.0, 10.0))
    chosen = tune("slc", FoldRows(learned), FitOptions(prior_var=0.01), grid)
    tuning, later = FoldRows(learned).tuning
    losses = {
        v: metrics_of(later.label, fit("slc", tuning.log, options=FitOptions(prior_var=v)).apply(later)).nll
        for v in (0.01, *grid.prior_vars)
    }
    assert chosen.prior_var == min(losses, key=losses.get)


def test_strong_bias_selects_a_wide_prior_and_no_bias_a_narrow_one(tmp_path):
    grid = Decision(prior_vars=(0.001, 1.0))
    wide = tune("slc", FoldRows(fold(tmp_path / "biased", bias_sd=1.2)), FitOptions(), grid)
    narrow = tune("slc", FoldRows(fold(tmp_path / "fair", bias_sd=0.0, items=600)), FitOptions(), grid)
    assert (wide.prior_var, narrow.prior_var) == (1.0, 0.001)


def test_methods_without_hyperparameters_keep_the_options(tmp_path):
    options = FitOptions(prior_var=0.7)
    absent = Fold(week(1), (tmp_path / "is-not-read",), tmp_path / "is-not-read")
    assert tune("platt", FoldRows(absent), options, Decision()) is options
    assert tune("slc_eb", FoldRows(absent), options, Decision()) is options


def test_the_given_options_are_tried_first_and_none_twice():
    found = list(
        candidates(
            "slc_t",
            FitOptions(prior_var=1.0, time_bins=10),
            Decision(prior_vars=(0.1, 1.0), time_bins=(5, 10)),
        )
    )
    assert [(o.prior_var, o.time_bins) for o in found] == [(1.0, 10), (1.0, 5), (0.1, 10), (0.1, 5)]


def test_a_single_week_is_split_by_time(tmp_path):
    assert tune(
        "slc", FoldRows(fold(tmp_path, weeks=1, bias_sd=1.0)), FitOptions(), Decision(prior_vars=(0.001, 1.0))
    ).prior_var == pytest.approx(1.0)


def test_rows_with_one_timestamp_cannot_be_tuned_forward(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    columns = {
        "item_id": rng.integers(0, 5, 100),
        "label": rng.integers(0, 2, 100),
        "logit": rng.normal(size=100),
        "event_time": np.zeros(100),
    }
    pq.write_table(pa.table(columns), tmp_path / "one.parquet")
    options = FitOptions()
    still = Fold(week(1), (tmp_path / "one.parquet",), Path("is-not-read"))
    assert tune("slc", FoldRows(still), options, Decision()) is options
