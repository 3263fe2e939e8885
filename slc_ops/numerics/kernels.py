"""The only code of the fits that touches rows: pure functions from a span of rows to small sums.

η₀ is the logit, p = σ(η), y the label, w the weight. Sums of spans add up, so the same functions serve
threads here and the batches of a distributed engine. Everything is computed in float64, whatever the type of
the column, from x = e^−η, with η ≥ −700 so that it is finite: p = 1/(1+x), 1−p = x/(1+x), −log p = log(1+x);
or from e = e^−|η|: σ(|η|) = 1/(1+e), σ(−|η|) = e/(1+e). Nothing is subtracted from 1, so |η| = 700 is as
exact as |η| = 1.

Spans are worked off in slices whose temporaries stay in the processor's cache, yet long enough that two
threads seldom wait for each other between two operations. Dot products avoid BLAS, whose own threads would
make the order of additions, and so the last bits, a matter of chance. Decision 0102 says which tricks were
measured, and what they bring.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
SLICE_ROWS = 1 << 17
_BITS = 1020  # a product of 1+e^−η is kept below two to this, which is finite
_FACTORS = 512  # 1 < 1+e ≤ 2, so a product of 512 of them is below 2^512 and exact to rounding
LARGEST_EXPONENT = 700.0  # e to this is finite; further out, a probability is as good as 0


@dataclass
class Sums:
    """Per key (an item, or an item in a time bin): n = Σw, Σwy, Σwp and the Fisher weight Σwp(1−p)."""

    n: Floats
    y: Floats
    p: Floats
    fisher: Floats

    def add(self, other: "Sums") -> None:
        """Take up the sums of further rows."""
        self.n += other.n
        self.y += other.y
        self.p += other.p
        self.fisher += other.fisher


@dataclass
class LinkSums:
    """The negative log-likelihood of p = σ(Σⱼ βⱼxⱼ + δ) and its first three derivatives in β.

    Of the third, Σ w·p(1−p)(1−2p)·xᵢxⱼxₖ, there is one entry for each i ≤ j ≤ k, in lexical order.
    """

    nll: float
    gradient: Floats
    hessian: Floats
    third: Floats

    def add(self, other: "LinkSums") -> None:
        """Take up the sums of further rows."""
        self.nll += other.nll
        self.gradient += other.gradient
        self.hessian += other.hessian
        self.third += other.third


def sigmoid(eta: NDArray[Any]) -> Floats:
    """σ(η); where e^−η has no number any more, σ(η) is 0.

    >>> sigmoid(np.array([-800.0, -700.0, 0.0, 700.0])).tolist()
    [0.0, 9.85967654375977e-305, 0.5, 1.0]
    """
    p: Floats = np.negative(eta, dtype=np.float64)
    with np.errstate(over="ignore"):
        np.exp(p, out=p)
    p += 1.0
    np.divide(1.0, p, out=p)
    return p


def probability(eta: NDArray[Any], e: Floats, p: Floats, high: Floats) -> None:
    """``p`` = σ(η) and ``high`` = σ(|η|) from e = e^−|η|, which becomes σ(−|η|)."""
    np.add(e, 1.0, out=high)
    np.divide(1.0, high, out=high)
    np.multiply(e, high, out=e)
    # p = high where η ≥ 0, else e: σ(|η|) is never the smaller of the two. np.where would make the pass over
    # link and offsets 1.25 times as long, as no processor can guess the signs.
    p[...] = eta >= 0
    np.multiply(p, high, out=p)
    np.maximum(p, e, out=p)


def decay(eta: NDArray[Any]) -> Floats:
    """e^−η, with η cut at −700 so that it is finite."""
    x = np.negative(eta, dtype=np.float64)
    np.minimum(x, LARGEST_EXPONENT, out=x)
    return np.asarray(np.exp(x, out=x))


def both_sides(eta: NDArray[Any]) -> tuple[Floats, Floats]:
    """σ(η) and σ(−η), each exact where it is small."""
    q = decay(eta)
    p = q + 1.0
    np.divide(1.0, p, out=p)
    q *= p
    return p, q


def key_sums(
    keys: NDArray[np.integer],
    n_keys: int,
    label: NDArray[Any],
    logit: NDArray[Any],
    weight: NDArray[Any] | None,
) -> Sums:
    """n, Σy, Σp and Fisher weight per key, at η₀."""
    n, y, p_sum, fisher_sum = np.zeros((4, n_keys))
    for part in slices(len(keys)):
        indices, w = keys[part].astype(np.intp, copy=False), None if weight is None else weight[part]
        p, q = both_sides(logit[part])
        q *= p
        np.add.at(n, indices, 1.0 if w is None else w.astype(np.float64, copy=False))
        for into, values in ((y, label[part].astype(np.float64)), (p_sum, p), (fisher_sum, q)):
            _add(into, indices, values, w)
    return Sums(n, y, p_sum, fisher_sum)


def offset_sums(
    offset: Floats, codes: NDArray[np.integer], logit: NDArray[Any], weight: NDArray[Any] | None
) -> Floats:
    """Σp, Σp(1−p) and Σp(1−p)(1−2p) per item, at η₀ + offset[item]."""
    sums = np.zeros((3, len(offset)))
    for part in slices(len(codes)):
        indices, w = codes[part].astype(np.intp, copy=False), None if weight is None else weight[part]
        eta = offset.take(indices, mode="clip")
        eta += logit[part]
        p, q = both_sides(eta)
        fisher = p * q
        skew = np.subtract(q, p, out=q)
        skew *= fisher
        for into, values in zip(sums, (p, fisher, skew), strict=True):
            _add(into, indices, values, w)
    return sums


def _add(into: Floats, indices: NDArray[np.intp], values: Floats, weight: NDArray[Any] | None) -> None:
    """Add each value, times its weight, to the sum of its key."""
    if weight is not None:
        values *= weight
    np.add.at(into, indices, values)


def link_sums(
    design: list[NDArray[Any]], label: NDArray[Any], weight: NDArray[Any] | None, offset: Floats, beta: Floats
) -> LinkSums:
    """The link's sums over one slice; the columns xⱼ are in ``design``, the offsets δ in ``offset``.

    The last coefficient is the intercept, whose column of ones is not written out.
    """
    eta = offset + beta[-1]
    for x, coefficient in zip(design, beta[:-1], strict=True):
        eta += x * coefficient
    q = decay(eta)
    one_plus = q + 1.0
    p = 1.0 / one_plus
    q *= p
    # −log likelihood of y: log(1+e^−η) + (1−y)η
    other, least = np.subtract(1.0, label, dtype=np.float64), float(np.min(eta))
    if weight is None and least > -LARGEST_EXPONENT:
        bits = 1.0 + max(0.0, -least) / np.log(2.0)
        nll = sum_of_logs(one_plus, 1 << int(np.log2(_BITS / bits))) + dot(other, eta)
    else:
        loss = np.log(one_plus) + np.maximum(-LARGEST_EXPONENT - eta, 0.0) + other * eta
        nll = float(np.sum(loss)) if weight is None else dot(loss, weight.astype(np.float64, copy=False))
    residual = np.subtract(other, q, out=other)
    fisher = p * q
    skew = np.subtract(q, p, out=q)
    if weight is not None:
        residual *= weight
        fisher *= weight
    skew *= fisher
    return LinkSums(nll, *_derivatives(design, residual, fisher, skew))


def _derivatives(
    design: list[NDArray[Any]], residual: Floats, fisher: Floats, skew: Floats
) -> tuple[Floats, Floats, Floats]:
    """Σ residual·xⱼ, Σ fisher·xⱼ·xₖ and Σ skew·xᵢxⱼxₖ, the intercept last."""
    last = len(design)
    gradient, hessian, third = np.empty(last + 1), np.empty((last + 1, last + 1)), []
    for i in range(last + 1):
        gradient[i] = _moment(residual, design, i)
        fisher_i, skew_i = _times(fisher, design, i), _times(skew, design, i)
        for j in range(i, last + 1):
            hessian[i, j] = hessian[j, i] = _moment(fisher_i, design, j)
            skew_ij = _times(skew_i, design, j)
            third += [_moment(skew_ij, design, k) for k in range(j, last + 1)]
    return gradient, hessian, np.array(third)


def _times(values: Floats, design: list[NDArray[Any]], j: int) -> Floats:
    return values if j == len(design) else values * design[j]


def _moment(values: Floats, design: list[NDArray[Any]], j: int) -> float:
    return float(np.sum(values)) if j == len(design) else dot(values, design[j])


def slices(n_rows: int) -> Iterator[slice]:
    """Consecutive slices of at most ``SLICE_ROWS`` rows."""
    for first in range(0, n_rows, SLICE_ROWS):
        yield slice(first, min(first + SLICE_ROWS, n_rows))


def total(keys: NDArray[np.intp], values: Floats, n_keys: int) -> Floats:
    """Σ of the values per key."""
    return np.bincount(keys, values, n_keys).astype(np.float64, copy=False)


def dot(left: Floats, right: Floats) -> float:
    """Σ left·right, added in one fixed order."""
    return float(np.einsum("i,i->", left, right))


def sum_of_logs(values: Floats, factors: int = _FACTORS) -> float:
    """Σ log(v), with one logarithm per product of so many of the values; by default they lie in [1, 2].

    A logarithm per value would make the pass of a link 1.12 times as long, that of a loss 1.24 times.
    """
    whole = len(values) // factors * factors
    products = np.multiply.reduce(values[:whole].reshape(factors, -1), axis=0)
    return float(np.sum(np.log(products)) + np.sum(np.log(values[whole:])))
