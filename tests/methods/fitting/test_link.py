import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from slc_ops.base.errors import OneClassError
from slc_ops.methods.fitting.calibration import Calibration, ItemOffsets
from slc_ops.methods.fitting.link import fit_link, link_warnings
from slc_ops.methods.fitting.logistic import Logistic
from slc_ops.rows import passes
from tests.methods.synthetic import log, log_of


def oracle(covariates: np.ndarray, label: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    """Unpenalised logistic regression from an independent library."""
    model = LogisticRegression(C=np.inf, tol=1e-12, max_iter=2000, solver="newton-cholesky")
    model.fit(covariates, label, weight)
    return np.append(model.coef_[0], model.intercept_[0])


def test_platt_equals_unpenalised_logistic_regression():
    rows = log()
    found = fit_link(Calibration(rows))
    assert [found.a, found.b0] == pytest.approx(oracle(rows.logit[:, None], rows.label), abs=1e-8)
    assert found.c == 0
    assert found.warnings == ()


def test_weights_enter_the_likelihood():
    rows = log(weight=True)
    found = fit_link(Calibration(rows))
    expected = oracle(rows.logit[:, None], rows.label, rows.weight)
    assert [found.a, found.b0] == pytest.approx(expected, abs=1e-8)


def test_time_is_a_standardised_covariate():
    rows = log()
    standard = (rows.time - rows.time.mean()) / rows.time.std()
    found = fit_link(Calibration(rows), time=True)
    expected = oracle(np.column_stack([rows.logit, standard]), rows.label)
    assert [found.a, found.c, found.b0] == pytest.approx(expected, abs=1e-8)


def test_a_fixed_offset_equals_statsmodels_with_offset():
    sm = pytest.importorskip("statsmodels.api")
    rows = log()
    delta = np.random.default_rng(5).normal(size=len(rows.items))
    found = fit_link(Calibration(rows), ItemOffsets(delta))
    design = np.column_stack([rows.logit, np.ones(rows.n_rows)])
    model = sm.GLM(rows.label, design, family=sm.families.Binomial(), offset=delta[rows.item_codes])
    assert [found.a, found.b0] == pytest.approx(model.fit(tol=1e-12).params, abs=1e-8)


@pytest.mark.parametrize("scale", [1e-3, 6.0, 300.0])
def test_the_fit_converges_for_logits_of_any_scale(scale):
    rows = log(scale=scale)
    found = fit_link(Calibration(rows))
    reference = fit_link(Calibration(log()))
    assert found.a * scale == pytest.approx(reference.a, rel=1e-7)
    assert found.b0 == pytest.approx(reference.b0, abs=1e-7)


def test_saturated_logits_give_finite_links():
    rng = np.random.default_rng(0)
    logit = rng.choice([-700.0, -300.0, 300.0, 700.0], 2000)
    label = np.where(rng.random(2000) < 0.2, logit < 0, logit > 0).astype(int)
    found = fit_link(Calibration(log_of(label=label, logit=logit)))
    assert np.isfinite([found.a, found.b0]).all()
    assert 0 < found.a < 0.05


def test_constant_logits_keep_the_slope_and_give_the_mean_label():
    rows = log_of(label=[1, 0, 0, 0], logit=[0.7] * 4)
    found = fit_link(Calibration(rows))
    assert found.a == 1.0
    assert found.a * 0.7 + found.b0 == pytest.approx(np.log(1 / 3), abs=1e-9)
    assert "equal" in found.warnings[0]


def test_perfect_separation_gives_a_finite_steep_link_and_a_warning():
    rows = log_of(label=[0, 0, 0, 1, 1, 1], logit=[-2.0, -1.0, -0.5, 0.5, 1.0, 2.0])
    found = fit_link(Calibration(rows))
    assert np.isfinite([found.a, found.b0]).all()
    assert found.a > 10
    assert any("separated" in warning for warning in found.warnings)


def test_separation_at_a_shared_score_is_detected_too():
    rows = log_of(label=[0, 0, 0, 1, 1, 1], logit=[-2.0, -1.0, 0.0, 0.0, 1.0, 2.0])
    found = fit_link(Calibration(rows))
    assert np.isfinite([found.a, found.b0]).all()
    assert any("separated" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("label", "logit"),
    [
        ([0, 0, 0, 1], [0.0, 0.0, 1.0, -7.6e-10]),
        ([0, 0, 0, 1], [0.0, -3.0, -0.0078125, 0.0]),
        ([0, 0, 0, 0, 1], [0.0, 2.0, 17.0, -7.6e-10, -7.6e-10]),
    ],
)
def test_a_narrow_separation_gives_a_warning(label, logit):
    rows = log_of(label=label, logit=logit)
    found = fit_link(Calibration(rows))
    assert np.isfinite([found.a, found.b0]).all()
    assert any("separated" in warning for warning in found.warnings)


def test_a_negative_slope_is_kept_and_reported():
    rows = log()
    turned = log_of(label=1 - rows.label, logit=rows.logit)
    found = fit_link(Calibration(turned))
    assert found.a == pytest.approx(-fit_link(Calibration(rows)).a, abs=1e-8)
    assert any("negative slope" in warning for warning in found.warnings)
    assert link_warnings(0.0, separated=False) == ()


@pytest.mark.parametrize("label", [0, 1])
def test_one_class_is_refused(label):
    with pytest.raises(OneClassError, match=f"all 3 labels that count are {label}"):
        fit_link(Calibration(log_of(label=[label] * 3, logit=[0.1, 0.2, 0.3])))


def test_one_class_among_rows_with_positive_weight_is_refused():
    rows = log_of(label=[1, 1, 0], logit=[0.1, 0.2, 0.3], weight=[1.0, 2.0, 0.0])
    with pytest.raises(OneClassError):
        fit_link(Calibration(rows))


@pytest.fixture
def visited(monkeypatch):
    """The rows and the link of every pass."""
    found, visit = [], Logistic.visit

    def noted(self, state, *args, **more):
        found.append((self.source, state.link))
        return visit(self, state, *args, **more)

    monkeypatch.setattr(Logistic, "visit", noted)
    return found


def test_a_start_from_a_sample_gives_the_same_fit_in_fewer_passes(monkeypatch, visited):
    rng = np.random.default_rng(1)
    logit = rng.normal(0, 5, 40_000)
    rows = log_of(label=rng.random(40_000) < 1 / (1 + np.exp(-logit)), logit=logit)
    direct = fit_link(Calibration(rows))
    assert all(source is rows for source, _ in visited), "short logs need no sample"
    needed = len(visited)
    monkeypatch.setattr(passes, "SAMPLE_ROWS", 1000)
    visited.clear()
    sampled = fit_link(Calibration(rows))
    assert [sampled.a, sampled.b0] == pytest.approx([direct.a, direct.b0], abs=1e-9)
    assert sum(source is rows for source, _ in visited) <= needed / 2


def test_the_iteration_starts_where_all_predictions_are_the_mean_label(visited):
    rows = log_of(label=[1, 0, 0, 0], logit=[0.2, 0.1, -0.3, 0.5])
    fit_link(Calibration(rows))
    assert visited[0][1] == pytest.approx([0.0, np.log(1 / 3)])


def test_a_sample_that_a_line_separates_is_not_used(monkeypatch, visited):
    """Its slope would be that of a step function."""
    monkeypatch.setattr(passes, "SAMPLE_ROWS", 1000)
    label, logit = np.tile([0, 1], 20_000), np.tile([-1.0, 1.0], 20_000)
    firsts, length = passes.evenly_spaced(40_000)
    sampled = np.zeros(40_000, bool)
    for first in firsts:
        sampled[first : first + length] = True
    label = np.where(sampled | (np.arange(40_000) % 5 > 0), label, 1 - label)
    rows = log_of(label=label, logit=logit)
    right = np.mean(label == (logit > 0))
    assert fit_link(Calibration(rows)).a == pytest.approx(np.log(right / (1 - right)), abs=1e-3)
    first = next(link for source, link in visited if source is rows)
    assert first == pytest.approx([0.0, np.log(label.mean() / (1 - label.mean()))])
