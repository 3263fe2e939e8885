"""The ladder implemented again from its definitions, with pandas, SciPy, statsmodels and scikit-learn.

Deliberately simple and slow; it shares no code with ``slc_ops``.
"""

import numpy as np
import pandas as pd
import statsmodels.api as sm
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit, logit
from sklearn.isotonic import IsotonicRegression

Predictions = dict[str, np.ndarray]


def predictions(calibration: pd.DataFrame, test: pd.DataFrame, *, bins: int = 10) -> Predictions:
    """The test probabilities of every method, fitted on the calibration rows."""
    eta, later = calibration["logit"].to_numpy(), test["logit"].to_numpy()
    return {
        "base": expit(later),
        "platt": platt(calibration, test),
        "temperature": temperature(calibration, later),
        "isotonic": isotonic(expit(eta), calibration["label"], expit(later)),
        "histogram": histogram(calibration, expit(later)),
        "platt_time": platt_time(calibration, test),
        "rescal": expit(later + of_rows(rescal(calibration), test)),
        "rescal_iso": on_top(isotonic, rescal(calibration), calibration, test),
        "ridge": on_top(link, ridge(calibration, 1.0), calibration, test),
        "slc": slc(calibration, test, 1.0),
        "slc_iso": on_top(isotonic, one_step(calibration, 1.0), calibration, test),
        "slc_t": slc_t(calibration, test, bins),
    }


def glm(columns: list[np.ndarray], label: pd.Series, offset: np.ndarray | None = None) -> np.ndarray:
    """Logistic regression with an intercept; the coefficients, the intercept last."""
    design = np.column_stack([*columns, np.ones(len(label))])
    model = sm.GLM(np.asarray(label), design, family=sm.families.Binomial(), offset=offset)
    return model.fit(tol=1e-12).params


def platt(calibration: pd.DataFrame, test: pd.DataFrame) -> np.ndarray:
    a, b = glm([calibration["logit"]], calibration["label"])
    return expit(a * test["logit"].to_numpy() + b)


def temperature(calibration: pd.DataFrame, later: np.ndarray) -> np.ndarray:
    sign = 2 * calibration["label"] - 1

    def loss(a: float) -> float:
        return float(np.logaddexp(0, -sign * a * calibration["logit"]).sum())

    return expit(
        minimize_scalar(loss, bounds=(1e-6, 50), method="bounded", options={"xatol": 1e-10}).x * later
    )


def isotonic(score: np.ndarray, label: pd.Series, later: np.ndarray) -> np.ndarray:
    return IsotonicRegression(out_of_bounds="clip").fit(score, label).predict(later)


def histogram(calibration: pd.DataFrame, later: np.ndarray) -> np.ndarray:
    edges = np.linspace(0, 1, 16)
    rate = calibration.groupby(pd.cut(expit(calibration["logit"]), edges), observed=False)["label"].mean()
    rate = rate.fillna(pd.Series((edges[1:] + edges[:-1]) / 2, index=rate.index))
    return rate.to_numpy()[pd.cut(pd.Series(later), edges).cat.codes]


def platt_time(calibration: pd.DataFrame, test: pd.DataFrame) -> np.ndarray:
    mean, spread = calibration["event_time"].mean(), calibration["event_time"].std(ddof=0)
    a, c, b = glm([calibration["logit"], (calibration["event_time"] - mean) / spread], calibration["label"])
    return expit(a * test["logit"].to_numpy() + c * (test["event_time"].to_numpy() - mean) / spread + b)


def rescal(calibration: pd.DataFrame) -> pd.Series:
    by_item = calibration.assign(p=expit(calibration["logit"])).groupby("item_id")
    n, rates = by_item.size(), by_item[["label", "p"]].mean().clip(1e-6, 1 - 1e-6)
    return ((logit(rates["label"]) - logit(rates["p"])) * n / (n + 50)).where(n >= 50, 0.0)


def one_step(calibration: pd.DataFrame, prior_var: float) -> pd.Series:
    p = expit(calibration["logit"])
    sums = pd.DataFrame({"rest": calibration["label"] - p, "fisher": p * (1 - p)})
    sums = sums.groupby(calibration["item_id"]).sum()
    return sums["rest"] / (1 / prior_var + sums["fisher"])


def ridge(calibration: pd.DataFrame, prior_var: float) -> pd.Series:
    def offset(rows: pd.DataFrame) -> float:
        return brentq(
            lambda b: float((rows["label"] - expit(rows["logit"] + b)).sum()) - b / prior_var,
            -50,
            50,
            xtol=1e-12,
        )

    return calibration.groupby("item_id")[["label", "logit"]].apply(offset)


def of_rows(offsets: pd.Series, rows: pd.DataFrame) -> np.ndarray:
    """The offset of each row's item, 0 for new items."""
    return rows["item_id"].map(offsets).fillna(0.0).to_numpy()


def link(
    eta: np.ndarray, delta: np.ndarray, label: pd.Series, later: np.ndarray, then: np.ndarray
) -> np.ndarray:
    """σ(a·η + b₀ + δ) with δ fixed; for a constant η only the intercept is fitted."""
    if np.ptp(eta) == 0:
        return expit(glm([], label, offset=delta) + then)
    a, b = glm([eta], label, offset=delta)
    return expit(a * later + b + then)


def on_top(what, offsets: pd.Series, calibration: pd.DataFrame, test: pd.DataFrame) -> np.ndarray:
    """The link, or an isotonic map, after item offsets."""
    eta, later = calibration["logit"].to_numpy(), test["logit"].to_numpy()
    delta, then = of_rows(offsets, calibration), of_rows(offsets, test)
    if what is isotonic:
        return isotonic(expit(eta + delta), calibration["label"], expit(later + then))
    return link(eta, delta, calibration["label"], later, then)


def slc(calibration: pd.DataFrame, test: pd.DataFrame, prior_var: float) -> np.ndarray:
    return on_top(link, one_step(calibration, prior_var), calibration, test)


def slc_t(calibration: pd.DataFrame, test: pd.DataFrame, bins: int) -> np.ndarray:
    """The deviations from ``slc`` as a Gaussian random walk, by linear algebra instead of a filter."""
    inner = np.unique(
        np.quantile(calibration["event_time"], np.arange(1, bins) / bins, method="inverted_cdf")
    )
    count = len(inner) + 1
    cell = pd.Series(np.searchsorted(inner, calibration["event_time"], side="left"), index=calibration.index)
    p = expit(calibration["logit"])
    sums = pd.DataFrame({"rest": calibration["label"] - p, "fisher": p * (1 - p)})
    rest, fisher = (
        sums.groupby([calibration["item_id"], cell])[name].sum().unstack(fill_value=0.0)
        for name in ("rest", "fisher")
    )
    steps = np.arange(1, count + 1)
    prior = 1.0 + 0.01 * np.minimum.outer(steps, steps)
    offsets = {}
    for item, static in one_step(calibration, 1.0).items():
        W = fisher.loc[item].reindex(range(count), fill_value=0.0).to_numpy()
        R = rest.loc[item].reindex(range(count), fill_value=0.0).to_numpy()
        seen = W >= 1.0
        noise = prior[np.ix_(seen, seen)] + np.diag(1 / W[seen])
        path = static + prior[:, seen] @ np.linalg.solve(noise, R[seen] / W[seen] - static)
        offsets.update({(item, t): path[t] for t in range(count)})
    delta = np.array([offsets[key] for key in zip(calibration["item_id"], cell, strict=True)])
    last = np.minimum(np.searchsorted(inner, test["event_time"], side="left"), count - 1)
    then = np.array([offsets.get(key, 0.0) for key in zip(test["item_id"], last, strict=True)])
    return link(calibration["logit"].to_numpy(), delta, calibration["label"], test["logit"].to_numpy(), then)
