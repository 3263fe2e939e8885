"""Compute paired intervals for the AUC and for means over rows, clustered by user.

Rows of one user are not independent, so the bootstrap resamples users, not rows. Two methods are compared on
the same rows, so their shared noise cancels. Every metric here is a function of sums over users, and a
replicate only needs each user's multiplicity mᵤ:

    ΔNLL* = Σ mᵤ Dᵤ / Σ mᵤ Wᵤ                        Dᵤ = Σ_{rows of u} w (loss_a − loss_b)
    and likewise for every metric that is a mean over rows
    ΔAUC* = ΔAUC + Σ mᵤ Gᵤ / (P*·N*),  P* = Σ mᵤPᵤ,  N* = Σ mᵤNᵤ

Gᵤ is the user's part of the pair count (placement values of its positives and negatives, difference of the
two methods) minus its expectation under ΔAUC. The AUC is a two-sample U-statistic; this keeps its first-order
term, as DeLong's and Obuchowski's variances do, and drops the users' interactions, which are smaller by a
factor of 1/users. A replicate costs O(users), not O(rows); tests compare it with the brute-force bootstrap.

Among many comparisons (the slices), one in twenty 95 % intervals would miss. *Simultaneous* intervals are
wider: c is the 95 % quantile, over the shared resamples, of the largest deviation of all comparisons,
|estimate* − estimate| in standard errors (max-t), and each interval extends c standard errors.

The sums of very many users are pooled into at most 4,096 groups: groups of independent users are independent
clusters, and the error of a standard deviation from 4,096 of them (1 %) is below that of the bootstrap.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from slc_ops.base.additive import Additive
from slc_ops.base.json_form import JsonForm, OwnForm
from slc_ops.base.text import interval, signed
from slc_ops.evidence.auc import BLOCK, Scored, in_order, placed
from slc_ops.evidence.metrics import METRICS, NOT_COMPUTED
from slc_ops.evidence.row_sums import PerRow

MAX_CLUSTERS = 4096
MIN_CLUSTERS = 10

Name = TypeVar("Name")

ROUNDING = 1e-12
"""Smaller values count as 0: equal predictions can sum their losses in another order."""


@dataclass(frozen=True)
class Interval(JsonForm):
    """An estimate with its confidence interval; ``reason`` explains a missing interval."""

    estimate: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None

    @property
    def bounds(self) -> dict[str, float | None]:
        """The figures without the reason, for records."""
        return {"estimate": self.estimate, "low": self.low, "high": self.high}

    def text(self, form: Callable[[float | None], str] = signed) -> str:
        """Format the estimate with its interval, or with the reason for a missing one."""
        return interval(self.estimate, self.low, self.high, self.reason, form=form)


@dataclass(frozen=True)
class PairedDifference(OwnForm):
    """Method a minus method b on the same rows, for every metric that gets intervals."""

    intervals: Mapping[str, Interval]
    rows: int
    users: int
    confidence: float
    n_simultaneous: int = 1
    """The number of simultaneous comparisons at this confidence; 1 for a single interval."""

    def __getitem__(self, name: str) -> Interval:
        """Return the difference in one metric; one that was not computed has only a reason."""
        return self.intervals.get(name) or Interval(None, reason=NOT_COMPUTED)

    @property
    def auc(self) -> Interval:
        """The difference in AUC; above 0 is better."""
        return self["auc"]

    @property
    def nll(self) -> Interval:
        """The difference in NLL; below 0 is better."""
        return self["nll"]

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        found = {name: each.as_dict() for name, each in self.intervals.items()}
        about = {name: getattr(self, name) for name in ("rows", "users", "confidence", "n_simultaneous")}
        return {**found, **about}

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> "PairedDifference":
        """Read the form of :meth:`as_dict`, which may lack metrics that were added later."""
        found = {name: Interval(**value[name]) for name in METRICS if name in value}
        return cls(found, value["rows"], value["users"], value["confidence"], value.get("n_simultaneous", 1))


@dataclass
class UserSums(Additive):
    """The sums per cluster of users that the bootstrap needs, for one method on one set of rows."""

    positive: np.ndarray
    negative: np.ndarray
    placement: np.ndarray
    means: dict[str, np.ndarray]
    """Σ w · value per row, by metric that is a mean over rows and gets intervals."""
    rows: int

    @property
    def weight(self) -> np.ndarray:
        """The weight of the rows per cluster."""
        return np.asarray(self.positive + self.negative)

    @property
    def auc(self) -> float | None:
        """The AUC, or None with one class; the sum of placements counts each pair twice."""
        return _ratio(float(self.placement.sum()) / 2, float(self.positive.sum() * self.negative.sum()))

    def mean(self, name: str) -> float | None:
        """Return a metric that is a mean over rows; None if the total weight is 0."""
        return _ratio(float(self.means[name].sum()), float(self.positive.sum() + self.negative.sum()))


@dataclass(frozen=True)
class Clusters:
    """The cluster of users of each row."""

    of_row: NDArray[np.integer]
    count: int

    @classmethod
    def of(cls, user: NDArray[Any]) -> "Clusters":
        """Return one cluster per user, or pooled clusters for many users.

        >>> Clusters.of(np.array([7, 3, 7]))
        Clusters(of_row=array([1, 0, 1], dtype=int16), count=2)
        """
        distinct, codes = np.unique(user, return_inverse=True)
        return cls.of_codes(codes, int(distinct.size))

    @classmethod
    def of_codes(cls, codes: NDArray[np.integer], users: int) -> "Clusters":
        """Return the clusters of users with codes from 0 to ``users`` − 1."""
        count = min(users, MAX_CLUSTERS)
        few = codes if users <= count else codes % codes.dtype.type(count)
        return cls(few.astype(np.int16), count)

    def take(self, rows: NDArray[np.intp]) -> "Clusters":
        """Return the clusters of the rows at these indices."""
        return Clusters(self.of_row.take(rows, mode="clip"), self.count)


def user_sums(
    label: NDArray[Any], probability: NDArray[Any], clusters: Clusters, weight: NDArray[Any] | None = None
) -> UserSums:
    """Reduce one method's rows to sums per cluster of users, with one sort and one pass."""
    order, rows = in_order(label, np.asarray(probability, dtype=np.float64), weight)
    return cluster_sums(rows, placed(rows)[0], clusters.take(order))


def cluster_sums(rows: Scored, placement: NDArray[np.float64], clusters: Clusters) -> UserSums:
    """Return the sums per cluster of rows in any order, with their placement values."""
    per_row = averaged()
    weight, positive, placements, *means = sums = np.zeros((3 + len(per_row), clusters.count))
    for start in range(0, rows.score.size, BLOCK):
        part = slice(start, start + BLOCK)
        here, w, p = rows.positive[part], rows.weight[part], rows.score[part]
        adds = (w, w * here, w * placement[part], *(w * each(here, p) for each in per_row.values()))
        keys = clusters.of_row[part].astype(np.intp)
        for into, values in zip(sums, adds, strict=True):
            np.add.at(into, keys, values)  # like bincount, but it releases the GIL
    return UserSums(
        positive=positive,
        negative=weight - positive,
        placement=placements,
        means=dict(zip(per_row, means, strict=True)),
        rows=rows.score.size,
    )


def averaged() -> dict[str, PerRow]:
    """Return the function per row of each metric that is a mean over rows and gets intervals."""
    return {m.name: m.per_row for m in METRICS.values() if m.paired and m.per_row is not None}


def difference(
    a: UserSums, b: UserSums | None, *, confidence: float = 0.95, replicates: int = 1000
) -> PairedDifference:
    """Return the intervals of a − b from their user sums; with ``b=None`` those of a."""
    return differences({None: (a, b)}, confidence=confidence, replicates=replicates)[None]


def differences(
    pairs: Mapping[Name, tuple[UserSums, UserSums | None]],
    *,
    confidence: float = 0.95,
    replicates: int = 1000,
    simultaneous: bool = False,
) -> dict[Name, PairedDifference]:
    """Compare many pairs over the same clusters of users, resampled together in one matrix product.

    With ``simultaneous`` all intervals of a metric cover the true values jointly at this confidence.
    """
    if not pairs:
        return {}
    columns = [_columns(a, b) for a, b in pairs.values()]
    draws = multiplicities(columns[0][0].size, replicates)
    drawn = draws @ np.column_stack([column for each in columns for column in each])
    width = len(columns[0])
    found = [
        _resampled(a, b, drawn[:, width * k : width * (k + 1)]) for k, (a, b) in enumerate(pairs.values())
    ]
    levels = {
        name: _joint_level([each[name] for each in found], confidence) if simultaneous else confidence
        for name in found[0]
    }
    made = {}
    for (pair, (a, _)), each in zip(pairs.items(), found, strict=True):
        users = _users(a)
        intervals = {n: _interval(one, levels[n], users, symmetric=simultaneous) for n, one in each.items()}
        together = len(found) if simultaneous else 1
        made[pair] = PairedDifference(intervals, a.rows, users, confidence, together)
    return made


def _columns(a: UserSums, b: UserSums | None) -> list[np.ndarray]:
    """Return the columns to resample for all differences: D of each mean, weight, P, N and G."""
    means = [each - (0.0 if b is None else b.means[name]) for name, each in a.means.items()]
    placement = a.placement - (0.0 if b is None else b.placement)
    P, N = float(a.positive.sum()), float(a.negative.sum())
    delta = _ratio(float(placement.sum()) / 2, P * N) or 0.0
    G = placement - delta * (a.positive * N + a.negative * P)
    return [*means, a.weight, a.positive, a.negative, G]


class _Resampled(NamedTuple):
    """A metric's estimate and its replicates, or the reason for a missing interval."""

    estimate: float | None
    replicates: np.ndarray | None = None
    reason: str | None = None


def _users(sums: UserSums) -> int:
    return int(np.count_nonzero(sums.weight))


def _resampled(a: UserSums, b: UserSums | None, drawn: np.ndarray) -> dict[str, _Resampled]:
    """Return all estimates with their replicates; ``drawn`` has the columns of :func:`_columns`."""
    P, N = float(a.positive.sum()), float(a.negative.sum())
    area = a.placement.sum() - (0.0 if b is None else b.placement.sum())
    auc = _ratio(float(area) / 2, P * N)
    means = {
        name: _ratio(float(each.sum() - (0.0 if b is None else b.means[name].sum())), P + N)
        for name, each in a.means.items()
    }
    if (present := _users(a)) < MIN_CLUSTERS:
        reason = f"an interval needs at least {MIN_CLUSTERS} users; there are {present}"
        return {name: _Resampled(each, reason=reason) for name, each in {"auc": auc, **means}.items()}
    *sums, weight, positive, negative, G = drawn.T
    pairs = positive * negative
    if auc is None:
        found = {"auc": _Resampled(None, reason="AUC needs both classes; only one occurs")}
    elif not (pairs > 0).all():
        found = {"auc": _Resampled(auc, reason="some resamples of users hold one class only")}
    else:
        found = {"auc": _Resampled(auc, auc + G / pairs)}
    for (name, estimate), resampled in zip(means.items(), sums, strict=True):
        if estimate is None or not (weight > 0).all():
            found[name] = _Resampled(estimate, reason="some resamples of users hold no row")
        else:
            found[name] = _Resampled(estimate, resampled / weight)
    return found


def paired_difference(
    label: np.ndarray,
    p_a: np.ndarray,
    p_b: np.ndarray,
    user: np.ndarray,
    *,
    weight: np.ndarray | None = None,
    confidence: float = 0.95,
    replicates: int = 1000,
) -> PairedDifference:
    """Return the intervals of metric(p_a) − metric(p_b) on the same rows, from resampled users.

    >>> rng = np.random.default_rng(0)
    >>> truth = rng.random(20_000)
    >>> label, user = rng.random(20_000) < truth, rng.integers(0, 500, 20_000)
    >>> result = paired_difference(label, truth, np.full(20_000, 0.5), user)
    >>> result.auc.low > 0, result.nll.high < 0
    (True, True)
    """
    clusters = Clusters.of(user)
    a = user_sums(label, p_a, clusters, weight)
    b = user_sums(label, p_b, clusters, weight)
    return difference(a, b, confidence=confidence, replicates=replicates)


@lru_cache(maxsize=4)
def multiplicities(clusters: int, replicates: int) -> np.ndarray:
    """Return the count of each cluster in each resample, with shape (replicates, clusters)."""
    rng = np.random.default_rng(0)
    draws = np.empty((replicates, clusters))
    for row in draws:
        row[:] = np.bincount(rng.integers(0, clusters, clusters), minlength=clusters)
    return draws


def _ratio(total: float, mass: float) -> float | None:
    return total / mass if mass > 0 else None


def _interval(found: _Resampled, confidence: float, clusters: int, *, symmetric: bool) -> Interval:
    """Return the expanded percentile interval, or a ``symmetric`` one in standard errors.

    A percentile interval is too narrow by sqrt((n−1)/n) and by normal instead of t quantiles; the level
    Φ(−t·sqrt(n/(n−1))) corrects both (Hesterberg 2015, What teachers should know about the bootstrap).
    Simultaneous levels lie far in the tails, where percentiles of a thousand resamples are noisy; their
    standard deviation is not.
    """
    from scipy.special import ndtr, stdtrit  # the normal's Φ and the t's quantile, without all of scipy.stats

    estimate, replicates, reason = found
    if estimate is None or replicates is None:
        return Interval(estimate, reason=reason)
    reach = stdtrit(clusters - 1, (1 + confidence) / 2) * np.sqrt(clusters / (clusters - 1))
    if symmetric:
        half = float(reach * np.std(replicates))
        return Interval(estimate, estimate - half, estimate + half)
    low, high = np.quantile(replicates, [ndtr(-reach), ndtr(reach)])
    return Interval(estimate, float(low), float(high))


def _joint_level(compared: Sequence[_Resampled], confidence: float) -> float:
    """Return the level per interval for simultaneous intervals of a metric, by max-t."""
    from scipy.special import ndtr

    largest = np.zeros(1)
    for estimate, replicates, _ in compared:
        if estimate is None or replicates is None:
            continue
        error = float(np.std(replicates))
        if error > ROUNDING:  # constant replicates are skipped
            largest = np.maximum(largest, np.abs(replicates - estimate) / error)
    reach = float(np.quantile(largest, confidence))
    return min(max(confidence, float(ndtr(reach) - ndtr(-reach))), 1 - ROUNDING)  # level 1 is infinite
