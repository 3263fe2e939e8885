"""All methods of a fold share its rows and do not affect each other."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slc_ops.base.window import Window
from slc_ops.evidence import scoring
from slc_ops.evidence.evaluation import evaluate, mean_log_loss
from slc_ops.evidence.folds import FoldRows
from slc_ops.evidence.scoring import score_fold
from slc_ops.evidence.tuning import Decision
from slc_ops.methods import METHODS, FitOptions, fit, fit_prepared
from slc_ops.methods.fitting.window_sums import open_windows
from slc_ops.refresh.window_rules import Reach, plan_folds
from slc_ops.rows.engine import LOCAL
from slc_ops.rows.interactions import InteractionLog
from tests.evidence.worlds import write_weeks

REACH = Reach(link=3, evidence=1)


@pytest.fixture
def weeks(tmp_path: Path) -> list[tuple[Window, Path]]:
    return write_weeks(tmp_path / "weeks", 4, bias_sd=0.8, n=900)


def plan(weeks):
    return plan_folds(weeks, REACH, summed=True).newest


def read_in_parts(fold):
    """The rows before the last calibration window, and its own, read from the files."""
    *before, last = fold.calibration
    return open_windows(LOCAL, before), LOCAL.read(last)


def scores_of(found):
    return {name: {**score.as_dict(), "seconds_fit": 0} for name, score in found.items()}


def test_fitting_together_and_alone_gives_the_same_scores(weeks, tmp_path):
    names, fold = list(METHODS), plan(weeks)
    together = score_fold(fold, names, tmp_path / "n_simultaneous", rules=Decision())
    alone = {}
    for name in names:
        alone |= score_fold(fold, [name], tmp_path / "alone", rules=Decision(), options=FitOptions(threads=1))
    assert scores_of(together) == scores_of(alone)


def test_a_failed_method_gives_a_reason_and_stops_no_other_method(weeks, tmp_path):
    for _, path in weeks:
        pq.write_table(pq.read_table(path).drop_columns("event_time"), path)
    found = score_fold(plan(weeks), ["base", "platt", "platt_time", "slc", "slc_t"], tmp_path)
    failed = {name for name, score in found.items() if score.error is not None}
    assert failed == {"platt_time", "slc_t"}
    assert "has no column event_time" in found["slc_t"].error
    assert found["slc"].metrics.nll < found["base"].metrics.nll


def test_a_method_that_is_fitted_already_does_not_open_its_long_memory_again(tmp_path):
    weeks = write_weeks(tmp_path / "weeks", 4, n=100)
    fold = plan_folds(weeks, Reach(link=1, offsets=3, evidence=1), summed=True).newest
    known = scoring.fit_on(FoldRows(fold, methods=["slc_eb"]), "slc_eb", FitOptions())
    for older in fold.offsets[:2]:
        older.unlink()
    found = score_fold(fold, ["platt", "slc_eb"], tmp_path / "scores", fits={"slc_eb": known})
    assert found["platt"].error is None
    assert found["slc_eb"].metrics == evaluate(known.parameters, FoldRows(fold).test).metrics


def test_after_a_crash_only_missing_scores_are_computed(weeks, tmp_path, monkeypatch):
    fold, names, fitted = plan(weeks), ["base", "platt", "slc"], []

    def crash_of_base(method, *rows):
        fitted.append(method)
        if method == "base":
            raise MemoryError("no memory left")
        return fit_prepared(method, *rows)

    with monkeypatch.context() as patch:
        patch.setattr(scoring, "fit_prepared", crash_of_base)
        with pytest.raises(MemoryError):
            score_fold(fold, names, tmp_path, options=FitOptions(threads=1))
    assert sorted(fitted) == names
    fitted.clear()
    monkeypatch.setattr(scoring, "fit_prepared", lambda m, *rows: fitted.append(m) or fit_prepared(m, *rows))
    assert set(score_fold(fold, names, tmp_path)) == set(names)
    assert fitted == ["base"]


@pytest.mark.parametrize("memory_mb", [512, 0])
def test_tuning_rows_cut_from_the_calibration_rows_give_the_same_bits(weeks, monkeypatch, memory_mb):
    monkeypatch.setattr("slc_ops.rows.interactions.memory_budget", lambda: memory_mb << 20)
    fold = plan(weeks)
    earlier, later = FoldRows(fold).tuning
    expected_earlier, expected_later = read_in_parts(fold)
    assert earlier.log.items.equals(expected_earlier.items)
    assert np.array_equal(earlier.log.item_codes, expected_earlier.item_codes)
    assert np.array_equal(later.label, expected_later.label)
    assert np.array_equal(later.time, expected_later.time)
    assert later.users.to_pylist() == expected_later.users.to_pylist()
    for method in METHODS:
        found, expected = fit_prepared(method, earlier), fit(method, expected_earlier)
        assert np.array_equal(found.apply(later), expected.apply(expected_later))


@pytest.mark.parametrize("memory_mb", [512, 0])
def test_calibration_rows_cut_from_the_long_memory_give_the_same_bits(weeks, monkeypatch, memory_mb):
    monkeypatch.setattr("slc_ops.rows.interactions.memory_budget", lambda: memory_mb << 20)
    fold = plan_folds(weeks, Reach(link=2, offsets=3, evidence=1), summed=True).newest
    rows, alone = FoldRows(fold, methods=["slc_eb"]), FoldRows(fold)
    found, expected = rows.calibration.log, alone.calibration.log
    assert not rows.long.log.items.slice(0, len(found.items)).equals(found.items)  # other codes
    assert found.items.equals(expected.items)
    for column in ("item_codes", "label", "logit", "time"):
        assert np.array_equal(getattr(found, column), getattr(expected, column))
    assert found.digest() == expected.digest()
    earlier, later = rows.tuning
    assert np.array_equal(earlier.log.item_codes, alone.tuning[0].log.item_codes)
    assert np.array_equal(later.item_codes, alone.tuning[1].item_codes)
    for method in METHODS:
        ours, theirs = (fit_prepared(method, each.calibration, each.long) for each in (rows, alone))
        assert np.array_equal(ours.apply(rows.test), theirs.apply(alone.test))


def test_windows_with_different_columns_are_read_separately(weeks):
    path = weeks[2][1]
    table = pq.read_table(path)
    place = table.schema.get_field_index("logit")
    pq.write_table(table.set_column(place, "logit", table["logit"].cast("float32")), path)
    fold = plan(weeks)
    earlier, later = FoldRows(fold).tuning
    assert later.rows(0, 1).logit.dtype == np.float32
    assert np.array_equal(earlier.log.item_codes, read_in_parts(fold)[0].item_codes)


def test_a_log_shares_no_rows_with_a_log_of_other_items(weeks):
    from slc_ops.base.errors import InputError

    table = pq.read_table(weeks[1][1])
    named = pa.array([f"other {item}" for item in table["item_id"].to_pylist()])
    pq.write_table(table.set_column(table.schema.get_field_index("item_id"), "item_id", named), weeks[1][1])
    whole, other = InteractionLog.read(weeks[0][1]), InteractionLog.read(weeks[1][1])
    with pytest.raises(InputError, match="their items differ"):
        other.within(whole, 0)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_without_a_sort_is_the_nll(weeks, weighted):
    for _, path in weeks:
        table = pq.read_table(path)
        if weighted:
            weight = np.random.default_rng(1).integers(0, 3, table.num_rows).astype(float)
            pq.write_table(table.append_column("weight", [weight]), path)
    log, later = InteractionLog.read(weeks[0][1]), InteractionLog.read(weeks[1][1])
    for method in ("platt", "slc_t", "isotonic"):
        parameters = fit(method, log)
        expected = evaluate(parameters, later).metrics.nll
        assert mean_log_loss(parameters, later) == pytest.approx(expected, rel=1e-13)
