"""How sure we are: paired intervals for AUC and NLL, clustered by user.

Rows of one user are not independent, so users are resampled, not rows; and two methods are compared on the
same rows, so the noise that they share cancels. Every metric here is a function of sums over users, and a
bootstrap replicate only needs each user's multiplicity mᵤ:

    ΔNLL* = Σ mᵤ Dᵤ / Σ mᵤ Wᵤ                        Dᵤ = Σ_{rows of u} w (loss_a − loss_b)
    ΔAUC* = ΔAUC + Σ mᵤ Gᵤ / (P*·N*),  P* = Σ mᵤPᵤ,  N* = Σ mᵤNᵤ

Gᵤ is the user's part of the pair count (placement values of its positives and negatives, difference of the
two methods) minus what ΔAUC predicts for it. The AUC is a two-sample U-statistic; this keeps its first-order
term, as DeLong's and Obuchowski's variances do, and drops the users' interactions, which are of order 1/users
smaller. So a replicate costs O(users), not O(rows); the tests hold it against the brute-force bootstrap.

With very many users their sums are pooled into at most 4,096 groups: groups of independent users are
independent clusters too, and the error of a standard deviation from 4,096 of them (1 %) is below the
bootstrap's own.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from slc_ops.evidence.auc import placements
from slc_ops.evidence.metrics import log_loss

MAX_CLUSTERS = 4096
MIN_CLUSTERS = 10


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence interval, or the reason why there is none."""

    estimate: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)


@dataclass(frozen=True)
class PairedDifference:
    """Method a minus method b on the same rows: above 0 is better for AUC, below 0 is better for NLL."""

    auc: Interval
    nll: Interval
    rows: int
    users: int
    confidence: float

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> "PairedDifference":
        """Read what :meth:`as_dict` wrote."""
        return cls(**{**value, "auc": Interval(**value["auc"]), "nll": Interval(**value["nll"])})


@dataclass
class UserSums:
    """What a bootstrap needs of one method on one set of rows: four numbers per cluster of users."""

    positive: np.ndarray
    negative: np.ndarray
    placement: np.ndarray
    loss: np.ndarray
    rows: int

    def add(self, other: "UserSums") -> None:
        """Take up further rows of the same clusters."""
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def auc(self) -> float | None:
        """The AUC; each pair is counted once from either side."""
        return _ratio(float(self.placement.sum()) / 2, float(self.positive.sum() * self.negative.sum()))

    @property
    def nll(self) -> float | None:
        """The mean loss."""
        return _ratio(float(self.loss.sum()), float(self.positive.sum() + self.negative.sum()))


@dataclass(frozen=True)
class Clusters:
    """Which cluster of users each row belongs to."""

    of_row: np.ndarray
    count: int

    @classmethod
    def of(cls, user: np.ndarray | None, rows: int) -> "Clusters":
        """One cluster per user, or groups of users when they are many; without users, each row is one.

        >>> Clusters.of(np.array([7, 3, 7]), 3)
        Clusters(of_row=array([1, 0, 1]), count=2)
        """
        if user is None:
            codes, users = np.arange(rows), rows
        else:
            distinct, codes = np.unique(user, return_inverse=True)
            users = int(distinct.size)
        count = min(users, MAX_CLUSTERS)
        return cls(codes % count if users > count else codes, count)

    def take(self, rows: np.ndarray) -> "Clusters":
        """The same clusters for some of the rows."""
        return Clusters(self.of_row[rows], self.count)


def user_sums(
    label: np.ndarray, probability: np.ndarray, clusters: Clusters, weight: np.ndarray | None = None
) -> UserSums:
    """Reduce one method's rows to sums per cluster of users: one sort, a few bincounts."""
    label, probability = np.asarray(label, dtype=np.float64), np.asarray(probability, dtype=np.float64)
    value, _, _ = placements(label, probability, weight)
    return cluster_sums(label, probability, value, clusters, weight)


def cluster_sums(
    label: np.ndarray,
    probability: np.ndarray,
    value: np.ndarray,
    clusters: Clusters,
    weight: np.ndarray | None = None,
) -> UserSums:
    """The sums of some rows whose placement values are known."""
    mass = np.ones(label.size) if weight is None else np.asarray(weight, dtype=np.float64)

    def per_cluster(values: np.ndarray) -> np.ndarray:
        return np.bincount(clusters.of_row, values, clusters.count)

    return UserSums(
        positive=per_cluster(mass * (label != 0)),
        negative=per_cluster(mass * (label == 0)),
        placement=per_cluster(mass * value),
        loss=per_cluster(mass * log_loss(label, probability)),
        rows=label.size,
    )


def difference(
    a: UserSums, b: UserSums | None, *, confidence: float = 0.95, replicates: int = 1000, seed: int = 0
) -> PairedDifference:
    """Intervals of a − b from their user sums; with ``b=None`` of a itself."""
    return differences([(a, b)], confidence=confidence, replicates=replicates, seed=seed)[0]


def differences(
    pairs: Sequence[tuple[UserSums, UserSums | None]],
    *,
    confidence: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
) -> list[PairedDifference]:
    """Many comparisons over the same clusters of users, resampled together: one matrix product."""
    if not pairs:
        return []
    draws = multiplicities(pairs[0][0].positive.size, replicates, seed)
    centred = [_centred(a, b) for a, b in pairs]
    drawn = draws @ np.column_stack([column for columns in centred for column in columns])
    return [_compare(a, b, drawn[:, 5 * k : 5 * k + 5], confidence) for k, (a, b) in enumerate(pairs)]


def _centred(a: UserSums, b: UserSums | None) -> list[np.ndarray]:
    """The five columns whose resampled sums make both differences: loss, weight, P, N and G."""
    loss = a.loss - (0.0 if b is None else b.loss)
    placement = a.placement - (0.0 if b is None else b.placement)
    P, N = float(a.positive.sum()), float(a.negative.sum())
    delta = _ratio(float(placement.sum()) / 2, P * N) or 0.0
    G = placement - delta * (a.positive * N + a.negative * P)
    return [loss, a.positive + a.negative, a.positive, a.negative, G]


def _compare(a: UserSums, b: UserSums | None, drawn: np.ndarray, confidence: float) -> PairedDifference:
    P, N = float(a.positive.sum()), float(a.negative.sum())
    area = a.placement.sum() - (0.0 if b is None else b.placement.sum())
    loss = a.loss.sum() - (0.0 if b is None else b.loss.sum())
    delta_auc, delta_nll = _ratio(float(area) / 2, P * N), _ratio(float(loss), P + N)
    present = int(np.count_nonzero(a.positive + a.negative))

    def answer(auc: Interval, nll: Interval) -> PairedDifference:
        return PairedDifference(auc, nll, a.rows, present, confidence)

    if present < MIN_CLUSTERS or delta_nll is None:
        reason = f"an interval needs at least {MIN_CLUSTERS} users; there are {present}"
        return answer(Interval(delta_auc, reason=reason), Interval(delta_nll, reason=reason))
    nll = Interval(delta_nll, reason="some resamples of users hold no row")
    if (drawn[:, 1] > 0).all():
        nll = _interval(delta_nll, drawn[:, 0] / drawn[:, 1], confidence, present)
    if delta_auc is None:
        return answer(Interval(None, reason="AUC needs both classes; only one is there"), nll)
    pairs = drawn[:, 2] * drawn[:, 3]
    if not (pairs > 0).all():
        return answer(Interval(delta_auc, reason="some resamples of users hold one class only"), nll)
    return answer(_interval(delta_auc, delta_auc + drawn[:, 4] / pairs, confidence, present), nll)


def paired_difference(
    label: np.ndarray,
    p_a: np.ndarray,
    p_b: np.ndarray,
    user: np.ndarray | None,
    *,
    weight: np.ndarray | None = None,
    confidence: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
) -> PairedDifference:
    """Intervals of metric(p_a) − metric(p_b) on the same rows, from ``replicates`` resamples of users.

    >>> rng = np.random.default_rng(0)
    >>> truth = rng.random(20_000)
    >>> label, user = rng.random(20_000) < truth, rng.integers(0, 500, 20_000)
    >>> result = paired_difference(label, truth, np.full(20_000, 0.5), user)
    >>> result.auc.low > 0, result.nll.high < 0
    (True, True)
    """
    clusters = Clusters.of(user, len(label))
    a = user_sums(label, p_a, clusters, weight)
    b = user_sums(label, p_b, clusters, weight)
    return difference(a, b, confidence=confidence, replicates=replicates, seed=seed)


@lru_cache(maxsize=4)
def multiplicities(clusters: int, replicates: int, seed: int) -> np.ndarray:
    """How often each cluster appears in each resample: one row per resample, shared by all comparisons."""
    rng = np.random.default_rng(seed)
    draws = np.empty((replicates, clusters))
    for row in draws:
        row[:] = np.bincount(rng.integers(0, clusters, clusters), minlength=clusters)
    return draws


def _ratio(total: float, mass: float) -> float | None:
    return total / mass if mass > 0 else None


def _interval(estimate: float, replicates: np.ndarray, confidence: float, clusters: int) -> Interval:
    """The expanded percentile interval.

    A percentile interval is too narrow by sqrt((n−1)/n) and by normal instead of t quantiles; taking it at
    Φ(−t·sqrt(n/(n−1))) repairs both (Hesterberg 2015, What teachers should know about the bootstrap).
    """
    from scipy.special import ndtr, stdtrit  # the normal's Φ and the t's quantile, without all of scipy.stats

    reach = stdtrit(clusters - 1, (1 + confidence) / 2) * np.sqrt(clusters / (clusters - 1))
    low, high = np.quantile(replicates, [ndtr(-reach), ndtr(reach)])
    return Interval(estimate, float(low), float(high))
