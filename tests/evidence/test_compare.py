import numpy as np
import pyarrow as pa
import pytest

from slc_ops.base.errors import OneClassError, SettingsError
from slc_ops.evidence.compare import compare, shared_options
from slc_ops.evidence.metrics import metrics_of
from slc_ops.methods import METHODS, FitOptions, fit
from slc_ops.paper.sweeps import (
    calibration_fraction_sweep,
    mean_label_logit,
    newest,
    prior_variance_sweep,
    with_constant_backbone,
)
from slc_ops.rows.interactions import InteractionLog
from tests.methods.synthetic import log, log_of, table


def test_the_ladder_is_scored_on_the_later_log():
    rows, later = log(), log(seed=1)
    found = compare(rows, later).as_dict()
    assert list(found["methods"]) == list(METHODS)
    assert (found["n_calibration"], found["n_test"], found["n_items"]) == (3000, 3000, len(rows.items))
    for name, scored in found["methods"].items():
        alone = metrics_of(later.label, fit(name, rows).apply(later))
        assert scored["auc"] == alone.auc
        assert scored["nll"] == alone.nll
        assert {"ece", "brier", "seconds_fit", "link", "warnings"} <= set(scored)
    assert set(found["methods"]["slc"]["link"]) == {"a", "b0"}
    assert found["methods"]["base"]["link"] is None


@pytest.mark.parametrize("threads", [2, 3])
def test_fitting_methods_in_parallel_gives_the_sequential_result(threads):
    rows, later = log(weight=True), log(seed=1, weight=True)
    one, many = (compare(rows, later, options=FitOptions(threads=n)) for n in (1, threads))
    assert list(many.methods) == list(one.methods)
    for name, scored in many.methods.items():
        alone = one.methods[name]
        assert scored.metrics == alone.metrics
        assert scored.parameters.link.as_dict() == alone.parameters.link.as_dict()
        assert scored.parameters.items == alone.parameters.items


@pytest.mark.parametrize(("threads", "each"), [(1, 1), (2, 1), (3, 3)])
def test_with_at_most_two_threads_each_of_the_parallel_methods_uses_one(threads, each):
    assert shared_options(FitOptions(threads=threads)).workers == each


def test_cold_start_is_the_share_of_test_rows_with_unknown_items():
    rows = log_of(
        item_id=["a", "b", "b", "c"], label=[0, 1, 1, 0], logit=[0.1, 0.2, 0.3, 0.4], weight=[1.0, 1, 1, 0]
    )
    later = log_of(item_id=["a", "b", "c", "d"], label=[0, 1, 1, 0], logit=[0.1, 0.2, 0.3, 0.4])
    assert compare(rows, later, methods=["base"]).cold_start_share == 0.5


def test_no_item_in_common_gives_a_warning():
    rows = log()
    foreign = pa.array([f"other {n % 7}" for n in range(3000)])
    later = InteractionLog.from_table(table().set_column(2, "item_id", foreign))
    found = compare(rows, later, methods=["platt", "slc"])
    assert found.cold_start_share == 1.0
    assert any("no item in common (40 and 7 items)" in each for each in found.warnings)


def test_without_times_the_methods_that_need_them_are_left_out():
    rows = InteractionLog.from_table(table().drop_columns(["event_time"]))
    later = InteractionLog.from_table(table(seed=1).drop_columns(["event_time"]))
    found = compare(rows, later)
    assert not {"platt_time", "naive", "slc_t"} & set(found.methods)
    assert "event_time" in found.warnings[0]


def test_weights_of_the_test_log_are_used():
    rows, later = log(), log(seed=1, weight=True)
    found = compare(rows, later, methods=["slc"]).methods["slc"].metrics
    assert found["nll"] == metrics_of(later.label, fit("slc", rows).apply(later), later.weight).nll


def test_a_test_log_of_one_class_has_no_auc_and_gives_a_reason():
    later = log_of(label=[1, 1], logit=[0.1, 0.2], event_time=[1, 2])
    found = compare(log(), later, methods=["base"]).as_dict()["methods"]["base"]
    assert found["auc"] is None
    assert "both classes" in found["reasons"]["auc"]


@pytest.mark.parametrize("methods", [["slc", "nothing"], []])
def test_unknown_methods_are_refused(methods):
    with pytest.raises(SettingsError, match="the ladder has base"):
        compare(log(), log(), methods=methods)


def test_the_prior_variance_sweep_fits_each_value():
    rows, later = log(), log(seed=1)
    found = prior_variance_sweep(rows, later, values=[0.1, 10.0])
    for row in found:
        alone = fit("slc", rows, options=FitOptions(prior_var=row["value"]))
        assert row["auc"] == metrics_of(later.label, alone.apply(later)).auc
        assert row["delta_auc"] == row["auc"] - row["base_auc"]


def test_the_fraction_sweep_keeps_the_newest_rows():
    rows, later = log(), log(seed=1)
    found = calibration_fraction_sweep(rows, later, values=[0.1, 1.0])
    assert [row["n_calibration"] for row in found] == [300, 3000]
    kept = newest(rows, 0.1)
    assert kept.time.min() >= np.sort(rows.time)[-300]
    assert found[0]["nll"] == metrics_of(later.label, fit("slc", kept).apply(later)).nll


def test_without_times_the_newest_rows_are_the_last():
    rows = log_of(label=[0, 1, 0, 1], logit=[1.0, 2.0, 3.0, 4.0])
    assert newest(rows, 0.5).logit.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("fraction", [0.0, 1.5, float("nan")])
def test_a_fraction_outside_its_range_is_refused(fraction):
    with pytest.raises(SettingsError, match="outside"):
        newest(log(), fraction)


def test_a_constant_backbone_predicts_the_mean_label():
    rows = log()
    flat = with_constant_backbone(rows, mean_label_logit(rows))
    assert np.allclose(fit("base", flat).apply(flat), rows.label.mean())
    assert flat.items.take(flat.item_codes).equals(rows.items.take(rows.item_codes))
    with pytest.raises(OneClassError):
        mean_label_logit(log_of(label=[1, 1], logit=[0.1, 0.2]))


def test_parallel_methods_keep_the_context_of_their_step():
    from contextvars import ContextVar

    from slc_ops.evidence.compare import side_by_side

    step: ContextVar[str] = ContextVar("step")
    step.set("fit")
    assert side_by_side(["platt", "slc"], lambda method: f"{step.get()} {method}") == {
        "platt": "fit platt",
        "slc": "fit slc",
    }


def test_groups_get_metrics_and_simultaneous_intervals():
    """Half of the groups have their own bias, which item offsets can correct and Platt cannot."""

    def rows(seed):
        draw = np.random.default_rng(seed)
        item = draw.integers(0, 40, 8000)
        logit = draw.normal(0, 1, 8000)
        bias = np.where(item % 4 < 2, 1.5, 0.0)
        return InteractionLog.from_table(
            pa.table(
                {
                    "item_id": item,
                    "user_id": draw.integers(0, 400, 8000),
                    "group_id": np.array(["a", "b", "c", "d"])[item % 4],
                    "label": (draw.random(8000) < 1 / (1 + np.exp(-logit - bias))).astype(np.int8),
                    "logit": logit,
                }
            )
        )

    found = compare(rows(1), rows(2), methods=["base", "slc_eb"])
    assert list(found.by_group) == ["base", "slc_eb"]
    differences = found.by_group["slc_eb"]
    assert set(differences) == {"a", "b", "c", "d"}
    assert all(each.n_simultaneous == 4 and each.nll.high < 0 for each in differences.values())
    written = found.as_dict()["groups"]
    test = rows(2)
    for group, code in zip("abcd", range(4), strict=True):
        chosen = np.array(test.items.to_pylist())[test.item_codes] % 4 == code
        p = found.methods["slc_eb"].parameters.apply(test)
        assert written[group]["slc_eb"]["nll"] == metrics_of(test.label[chosen], p[chosen]).nll
        assert written[group]["slc_eb"]["against_platt"] == differences[group].as_dict()
    title, columns, shown = found.group_table()
    assert title.startswith("slc_eb minus platt by group")
    assert [columns, len(shown)] == [["group", "rows", "Δ AUC", "Δ NLL"], 4]
    assert compare(log(), log(), methods=["base"]).as_dict()["groups"] is None


@pytest.mark.parametrize("label", [None, 1])
def test_without_scipy_the_differences_are_the_same_and_have_no_intervals(monkeypatch, label):
    later = log(seed=1)
    if label is not None:  # no AUC
        later = InteractionLog.from_table(
            table(seed=1).set_column(3, "label", pa.array(np.full(3000, label)))
        )
    with_intervals = compare(log(), later, methods=["slc"]).differences["slc"]
    monkeypatch.setattr("slc_ops.evidence.compare.find_spec", lambda name: None)
    without = compare(log(), later, methods=["slc"]).differences["slc"]
    assert (without.rows, without.users) == (with_intervals.rows, with_intervals.users) == (3000, 60)
    assert (without.auc.estimate is None) == (label is not None)
    for name, found in without.intervals.items():
        assert found.estimate == pytest.approx(with_intervals[name].estimate)
        assert (found.low, found.high) == (None, None)
        assert "pip install" in found.reason
