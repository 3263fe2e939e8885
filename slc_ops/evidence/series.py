"""Build the evidence series: for every past window, the scores of all methods fitted before it.

An entry has, for each pair of methods, the difference d of their NLLs on one window and its standard error
over users, in closed form: with D the users' differences in loss and M their weights,

    d = ΣD / ΣM,     se = sqrt( U/(U−1) · Σ(D − M·d)² ) / ΣM.

This error holds for the window itself. It predicts the next window poorly, because all users of a window
share its conditions: on real logs the standard deviation between windows is ten times the users' error. A
statistic over windows therefore has two components of variance:

1. Within a window: σ² = Σ m²·se² / Σ m is the users' variance per unit of weight m, pooled over the windows
   (so that few users get no excessive weight, nor two identical methods an infinite one); a window has σ²/m.
2. Between windows: τ² by DerSimonian and Laird; weights ∝ 1/(τ² + σ²/m), so small windows count less.
3. S² = Σ w(d − mean)² · n/(n−1). Neighbouring windows resemble each other (lag-1 correlation 0.2 to 0.4 on
   flights): n windows count as n/2, in the standard error and in the t-quantile's degrees of freedom:
   SE² = max(S², median σ²/m) / max(n/2, 1). With one window S² is 0, and the users' variance applies.
4. The mean lies within t·SE, the next window's difference within t·S·sqrt(1 + 2/n). The next window has the
   same users, so their variance is in S already.

Returning users add 1 % to the variance of the mean (flights), so no user data is kept across windows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from slc_ops.base.json_form import JsonForm
from slc_ops.base.methods import METHODS
from slc_ops.base.window import Window
from slc_ops.evidence.uncertainty import UserSums

LEAST_FOR_NEXT = 3
"""Minimum number of windows for an interval of the next one: two windows give only one difference."""


@dataclass(frozen=True)
class Paired:
    """The NLL difference of two methods on one window; ``se`` is None with fewer than two users."""

    d: float
    se: float | None


@dataclass(frozen=True)
class Entry(JsonForm):
    """One window of the series: the scores of all methods fitted on earlier windows.

    ``against`` compares every method with every simpler one (earlier in the ladder). ``left_out`` has the
    reasons for missing scores. ``hold_out`` marks the first window, whose later part is scored by fits on
    its earlier part; such an entry counts only while there is no other.
    """

    window: Window
    rows: int
    users: int
    weight: float
    nll: Mapping[str, float]
    against: Mapping[str, Mapping[str, Paired]]
    hold_out: bool = False
    left_out: Mapping[str, str] = field(default_factory=dict)

    def difference(self, method: str, reference: str) -> Paired | None:
        """Return the NLL of ``method`` minus that of ``reference``; None if one has no score."""
        if (found := self.against.get(method, {}).get(reference)) is not None:
            return found
        turned = self.against.get(reference, {}).get(method)
        return None if turned is None else Paired(-turned.d, turned.se)


def entry(
    window: Window,
    sums: Mapping[str, UserSums],
    *,
    hold_out: bool = False,
    left_out: Mapping[str, str] | None = None,
) -> Entry:
    """Build the entry of a window from each method's sums by user over all rows; others follow the ladder."""
    first = next(iter(sums.values()), None)
    weight = 0.0 if first is None else float(first.weight.sum())
    usable = sorted(sums, key=lambda name: (*METHODS, name).index(name)) if weight > 0 else []
    return Entry(
        window=window,
        rows=0 if first is None else first.rows,
        users=0 if first is None else int(np.count_nonzero(first.weight)),
        weight=weight,
        nll={name: float(sums[name].means["nll"].sum()) / weight for name in usable},
        against={
            method: {simpler: paired(sums[method], sums[simpler]) for simpler in usable[:place]}
            for place, method in enumerate(usable)
            if place
        },
        hold_out=hold_out,
        left_out=dict(left_out or {}),
    )


def paired(a: UserSums, b: UserSums) -> Paired:
    """Return the NLL of a minus that of b on the same rows, with the closed-form error over users."""
    D, M = a.means["nll"] - b.means["nll"], a.weight
    total = float(M.sum())
    d = float(D.sum()) / total
    users = int(np.count_nonzero(M))
    if users < 2:
        return Paired(d, None)
    Z = D - M * d
    return Paired(d, float(np.sqrt(users / (users - 1) * (Z @ Z)) / total))


@dataclass(frozen=True)
class Statistic(JsonForm):
    """The mean NLL difference of two methods over the series; below 0 is better.

    ``error`` and ``freedom`` are the mean's standard error and its degrees of freedom, ``spread`` the
    standard deviation between windows; ``low`` and ``high`` are the interval of the mean, ``next_low`` and
    ``next_high`` that of the difference on the next window.
    """

    method: str
    reference: str
    windows: int
    hold_out: bool
    mean: float
    error: float
    freedom: float
    spread: float
    low: float
    high: float
    next_low: float | None
    next_high: float | None
    confidence: float

    def bound(self, level: float) -> float:
        """Return the smallest |mean| that differs clearly from 0 at a two-sided level."""
        return quantile(self.freedom, level) * self.error

    def clear(self, level: float, *, worse: bool) -> bool:
        """Return True if the method is better (or worse) beyond the bound of a level."""
        return (self.mean if worse else -self.mean) > self.bound(level)


def statistic(
    entries: Sequence[Entry], method: str, reference: str, *, last: int = 8, confidence: float = 0.95
) -> Statistic | None:
    """Return the statistic of the last entries with both methods; None without entries or errors.

    ``entries`` are in time order; a hold-out entry counts only while it is the only one.
    """
    found = [(each, each.difference(method, reference)) for each in entries]
    both = [(each, pair) for each, pair in found if pair is not None]
    real = [(each, pair) for each, pair in both if not each.hold_out]
    used = (real or both)[-last:]
    if not used:
        return None
    d = np.array([pair.d for _, pair in used])
    m = np.array([each.weight for each, _ in used])
    known = np.array([pair.se is not None for _, pair in used])
    se = np.array([pair.se or 0.0 for _, pair in used])
    n = len(d)
    if not known.any() and (n < LEAST_FOR_NEXT or not m.sum() > 0):
        return None  # one user in every window: no standard error
    pooled = float((m[known] ** 2 * se[known] ** 2).sum() / m[known].sum()) if known.any() else 0.0
    mean, spread, within = _over_windows(d, m, pooled)
    freedom = max(n / 2, 1.0)
    error = float(np.sqrt(max(spread**2, within) / freedom))
    reach = quantile(freedom, confidence)
    ahead = reach * spread * float(np.sqrt(1 + 2 / n)) if n >= LEAST_FOR_NEXT else None
    return Statistic(
        method=method,
        reference=reference,
        windows=n,
        hold_out=not real,
        mean=mean,
        error=error,
        freedom=freedom,
        spread=spread,
        low=mean - reach * error,
        high=mean + reach * error,
        next_low=None if ahead is None else mean - ahead,
        next_high=None if ahead is None else mean + ahead,
        confidence=confidence,
    )


def _over_windows(d: np.ndarray, m: np.ndarray, pooled: float) -> tuple[float, float, float]:
    """Return the weighted mean, the standard deviation between windows and the median variance within."""
    n = len(d)
    within = pooled / m
    if n == 1:
        return float(d[0]), 0.0, float(within[0])
    if pooled > 0:
        omega = 1.0 / within
        centre = float(omega @ d / omega.sum())
        excess = float(omega @ (d - centre) ** 2) - (n - 1)
        tau2 = max(0.0, excess / float(omega.sum() - (omega @ omega) / omega.sum()))
        w = 1.0 / (tau2 + within)
    else:
        w = np.ones(n)  # no variance within: equal weights
    w = w / w.sum()
    mean = float(w @ d)
    return mean, float(np.sqrt(w @ (d - mean) ** 2 * n / (n - 1))), float(np.median(within))


def quantile(freedom: float, level: float) -> float:
    """Return the two-sided quantile of t."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + level) / 2))
