"""base, slc, ridge, rescal and the isotonic variants compared with independent implementations."""

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from slc_ops.methods import FitOptions, fit
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.methods.ridge import converged_offsets
from slc_ops.numerics.curves import Isotonic
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.rows.interactions import InteractionLog
from tests.methods.synthetic import log, log_of


def offsets(parameters: ParameterSet, rows: InteractionLog) -> np.ndarray:
    """δ of each row."""
    by_id = dict(zip(parameters.items["id"].to_pylist(), parameters.items["offset"].to_pylist(), strict=True))
    return np.array([by_id[item] for item in rows.items.to_pylist()])[rows.item_codes]


def test_base_is_the_sigmoid():
    rows = log()
    assert np.array_equal(fit("base", rows).apply(rows), expit(rows.logit)) or np.allclose(
        fit("base", rows).apply(rows), expit(rows.logit), rtol=1e-15
    )


@pytest.mark.parametrize("prior_var", [0.1, 1.0, 10.0])
def test_slc_equals_equation_five_for_each_item(prior_var):
    rows = log()
    found = fit("slc", rows, options=FitOptions(prior_var=prior_var)).items.to_pylist()
    assert [row["id"] for row in found] == sorted(rows.items.to_pylist())
    for row in found:
        mine = rows.item_codes == rows.items.to_pylist().index(row["id"])
        p = expit(rows.logit[mine])
        W = np.sum(p * (1 - p))
        assert row["offset"] == pytest.approx(np.sum(rows.label[mine] - p) / (1 / prior_var + W), abs=1e-12)
        assert row["offset_var"] == pytest.approx(1 / (1 / prior_var + W), abs=1e-12)
        assert row["shrinkage"] == pytest.approx(W / (1 / prior_var + W), abs=1e-12)
        assert row["fisher_weight"] == pytest.approx(W, rel=1e-12)
        assert row["n_obs"] == mine.sum()


def test_slc_predicts_with_the_offset_outside_the_slope():
    rows = log()
    found = fit("slc", rows)
    expected = expit(found.link.a * rows.logit + found.link.b0 + offsets(found, rows))
    assert np.allclose(found.apply(rows), expected, atol=1e-15)


def test_ridge_equals_penalised_logistic_regression_on_one_hot_items():
    rows = log(rows=1500, items=12)
    found = fit("ridge", rows, options=FitOptions(prior_var=0.7))
    # scikit-learn has no offset: a column with the logits, scaled so that its penalty vanishes, and a slope
    # that is then divided out would change the model. Instead: the gradient at our answer must be zero.
    delta = offsets(found, rows)
    residual = rows.label - expit(rows.logit + delta)
    for code in range(len(rows.items)):
        mine = rows.item_codes == code
        assert residual[mine].sum() - delta[mine][0] / 0.7 == pytest.approx(0.0, abs=1e-7)


def test_ridge_with_zero_logits_equals_scikit_learn():
    rows = log(rows=1500, items=12)
    flat = log_of(item_id=rows.items.take(rows.item_codes), label=rows.label, logit=np.zeros(rows.n_rows))
    found = fit("ridge", flat, options=FitOptions(prior_var=0.7))
    one_hot = np.eye(len(flat.items))[flat.item_codes]
    model = LogisticRegression(C=0.7, fit_intercept=False, tol=1e-12, solver="newton-cholesky")
    model.fit(one_hot, flat.label)
    assert np.allclose(offsets(found, flat), (one_hot @ model.coef_.T)[:, 0], atol=1e-7)


def test_ridge_converges_on_saturated_logits_where_newton_overshoots():
    rows = log_of(label=[1, 1, 0, 1], logit=[-40.0, -40.0, -40.0, 2.0], item_id=["a", "a", "a", "b"])
    found = fit("ridge", rows, options=FitOptions(prior_var=100.0))
    delta = offsets(found, rows)
    gradient = np.sum((rows.label - expit(rows.logit + delta))[:3]) - delta[0] / 100.0
    assert gradient == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("weight", [False, True])
@pytest.mark.parametrize("scale", [0.3, 1.0, 6.0, 60.0])
@pytest.mark.parametrize("prior_var", [0.1, 5.0])
def test_ridge_converges_to_1e_11(weight, scale, prior_var):
    rows = log(rows=4000, items=300, scale=scale, weight=weight)
    found, variance = converged_offsets(Calibration(rows, options=FitOptions(prior_var=prior_var)))
    p = expit(rows.logit + found[rows.item_codes])
    gradient = np.bincount(rows.item_codes, rows.weight * (rows.label - p)) - found / prior_var
    curvature = np.bincount(rows.item_codes, rows.weight * p * (1 - p)) + 1 / prior_var
    assert np.max(np.abs(gradient / curvature)) < 1e-11
    assert np.allclose(variance, 1 / curvature, rtol=1e-6)


def test_rescal_matches_rates_of_items_with_fifty_rows():
    rng = np.random.default_rng(0)
    item = np.array(["often"] * 50 + ["rare"] * 49 + ["always"] * 55)
    label = np.concatenate([rng.integers(0, 2, 99), np.ones(55)])
    rows = log_of(item_id=item, label=label, logit=rng.normal(size=154))
    table = {row["id"]: row for row in fit("rescal", rows).items.to_pylist()}
    p = expit(rows.logit)
    often = (logit(label[:50].mean()) - logit(p[:50].mean())) * 50 / 100
    always = (logit(1 - 1e-6) - logit(p[99:].mean())) * 55 / 105
    assert table["often"]["offset"] == pytest.approx(often, abs=1e-12)
    assert table["always"]["offset"] == pytest.approx(always, abs=1e-9)
    assert table["rare"]["offset"] == table["rare"]["shrinkage"] == 0.0
    assert table["rare"]["offset_var"] is None
    # The variance of the logit of a rate is 1/(n·rate·(1 − rate)), and of λ times it λ² as much.
    for name, n, rate in (("often", 50, label[:50].mean()), ("always", 55, 1 - 1e-6)):
        shrinkage = n / (n + 50)
        assert table[name]["shrinkage"] == pytest.approx(shrinkage)
        assert table[name]["offset_var"] == pytest.approx(shrinkage**2 / (n * rate * (1 - rate)), rel=1e-6)


@pytest.mark.parametrize("weight", [False, True])
@pytest.mark.parametrize("method", ["isotonic", "rescal_iso", "slc_iso"])
def test_isotonic_links_equal_scikit_learn(method, weight):
    rows = log(weight=weight, rows=4000)
    found = fit(method, rows)
    before = {"isotonic": None, "rescal_iso": "rescal", "slc_iso": "slc"}[method]
    delta = 0.0 if before is None else offsets(fit(before, rows), rows)
    score = expit(rows.logit + delta)
    oracle = IsotonicRegression(out_of_bounds="clip").fit(score, rows.label, rows.weight)
    assert isinstance(found.link, Isotonic)
    assert np.allclose(found.apply(rows), oracle.predict(score), atol=1e-12)
    later = log(seed=9, rows=500)
    if before is None:
        assert np.allclose(found.apply(later), oracle.predict(expit(later.logit)), atol=1e-12)


def test_isotonic_pools_equal_scores():
    rows = log_of(label=[1, 0, 0, 1, 1], logit=[0.0, 0.0, 0.0, 1.0, 1.0])
    assert fit("isotonic", rows).apply(rows).tolist() == pytest.approx([1 / 3] * 3 + [1.0] * 2)


def test_a_histogram_gives_the_mean_label_of_right_closed_bins():
    rows = log(rows=5000)
    p = expit(rows.logit)
    bins = np.clip(np.digitize(p, np.linspace(0, 1, 16), right=True) - 1, 0, 14)
    expected = np.array([rows.label[bins == b].mean() for b in bins])
    assert np.allclose(fit("histogram", rows).apply(rows), expected, atol=1e-12)


def test_an_empty_histogram_bin_gives_its_centre():
    found = fit("histogram", log_of(label=[0, 1], logit=[0.0, 0.01]))
    assert found.correct(["any"], [5.0])[0] == pytest.approx(14.5 / 15)


def test_temperature_minimises_the_likelihood_over_one_slope():
    from scipy.optimize import minimize_scalar

    rows = log()

    def loss(slope: float) -> float:
        eta = slope * rows.logit
        return float(np.sum(np.logaddexp(0, eta) - rows.label * eta))

    best = minimize_scalar(loss, bounds=(0.01, 5), method="bounded", options={"xatol": 1e-10}).x
    assert fit("temperature", rows).link.a == pytest.approx(best, abs=1e-7)


def test_logits_of_zero_keep_the_temperature_at_one_with_a_warning():
    found = fit("temperature", log_of(label=[0, 1, 1], logit=[0.0] * 3))
    assert found.link.a == 1.0
    assert found.warnings == ("all logits are 0: no temperature can change them",)


def test_a_reversed_score_gets_a_huge_temperature_and_a_warning():
    rows = log()
    found = fit("temperature", log_of(label=1 - rows.label, logit=rows.logit))
    assert found.link.a == 1e-6
    assert "slope" in found.warnings[0]
    assert np.allclose(found.correct(["x"], [3.0]), 0.5, atol=1e-5)
