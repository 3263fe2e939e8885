"""The only code of the fits that reads rows: pure functions from a span of rows to small sums.

η₀ is the logit, p = σ(η), y the label, w the weight. Sums of spans add up, so the same functions serve
threads here and the batches of a distributed engine. Everything is computed in float64, for any type of the
column, from x = e^−η, with η ≥ −700 so that it is finite: p = 1/(1+x), 1−p = x/(1+x); or from e = e^−|η|:
σ(|η|) = 1/(1+e), σ(−|η|) = e/(1+e). Nothing is subtracted from 1, so |η| = 700 is as exact as |η| = 1.

Spans are processed in slices whose temporaries fit into the processor's cache, yet long enough that two
threads seldom wait for each other between two operations. Dot products avoid BLAS, whose threads would make
the order of additions, and so the last bits, random. Decision 0058 has the measured optimisations.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slc_ops.base.additive import Additive

Floats = NDArray[np.float64]
SLICE_ROWS = 1 << 17
_FACTORS = 512  # 1 < 1+e ≤ 2, so a product of 512 is at most 2^512 and exact to rounding
MODEL_STEPS = 8  # steps of the offsets of equal rows, each of length 1 at most
LARGEST_EXPONENT = 700.0  # e to this is finite; beyond it a probability is effectively 0


@dataclass
class Sums(Additive):
    """Per key (an item, or an item in a time bin): n = Σw, Σwy, Σwp and the Fisher weight Σwp(1−p)."""

    n: Floats
    y: Floats
    p: Floats
    fisher: Floats


@dataclass
class RowSums(Additive):
    """The negative log-likelihood of p = σ(η), η = Σⱼ βⱼxⱼ + …, and its derivatives.

    With r = p − y and h = p(1 − p): Σwr·xⱼ and Σwh·xⱼxₖ over all rows; per key (one in all, or one per item)
    Σwr, W = Σwh and Σwh·xⱼ.
    """

    nll: float
    pull: Floats
    square: Floats
    residual: Floats
    fisher: Floats
    cross: Floats


@dataclass(frozen=True)
class RowsAt:
    """Some rows at one state: the columns xⱼ, η, e = e^−|η|, labels and weights."""

    columns: list[Floats]
    eta: Floats
    e: Floats
    label: NDArray[Any]
    weight: NDArray[Any] | None

    def losses(self) -> Floats:
        """Return −log-likelihood of each row, times its weight."""
        loss: Floats = np.maximum(self.eta, 0.0) - self.label * self.eta + np.log(1.0 + self.e)
        return loss if self.weight is None else loss * self.weight

    def loss(self) -> float:
        """Return the sum of the losses."""
        if self.weight is not None:
            return float(np.sum(self.losses()))
        above = float(np.sum(np.maximum(self.eta, 0.0)))
        return sum_of_logs(self.e + 1.0) + above - dot(self.label.astype(np.float64), self.eta)

    def residual_and_fisher(self, residual: Floats, fisher: Floats) -> None:
        """Write w·r and w·h of each row into the arrays; ``e`` is overwritten."""
        probability(self.eta, self.e, residual, fisher)
        residual -= self.label
        fisher *= self.e
        if self.weight is not None:
            residual *= self.weight
            fisher *= self.weight


def row_sums(
    n_rows: int, n_columns: int, at: Callable[[slice], RowsAt], keys: NDArray[Any] | None, n_keys: int
) -> RowSums:
    """Return the sums over rows that ``at`` returns slice by slice; without ``keys`` all rows share one."""
    residual, fisher = np.empty((2, n_rows))
    cross = np.empty((n_columns, n_rows))
    nll, pull, square = 0.0, np.zeros(n_columns), np.zeros((n_columns, n_columns))
    for part in slices(n_rows):
        here = at(part)
        nll += here.loss()
        here.residual_and_fisher(residual[part], fisher[part])
        for j, x in enumerate(here.columns):
            np.multiply(fisher[part], x, out=cross[j, part])
            pull[j] += dot(residual[part], x)
            for k in range(j + 1):
                square[j, k] += dot(cross[j, part], here.columns[k])
    square = square + np.tril(square, -1).T
    if keys is None:
        per_key = [np.sum(values, keepdims=True) for values in (residual, fisher, *cross)]
    else:
        keys = keys.astype(np.intp)
        per_key = [total(keys, values, n_keys) for values in (residual, fisher, *cross)]
    return RowSums(
        nll, pull, square, per_key[0], per_key[1], np.array(per_key[2:]).reshape(n_columns, n_keys)
    )


def sigmoid(eta: NDArray[Any]) -> Floats:
    """Return σ(η); 0 where e^−η overflows.

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
    """Write ``p`` = σ(η) and ``high`` = σ(|η|) from e = e^−|η|, which becomes σ(−|η|)."""
    np.add(e, 1.0, out=high)
    np.divide(1.0, high, out=high)
    np.multiply(e, high, out=e)
    # p = high where η ≥ 0, else e: σ(|η|) is never the smaller of the two. np.where would make the pass over
    # link and offsets 1.25 times as long, because branch prediction fails on random signs.
    p[...] = eta >= 0
    np.multiply(p, high, out=p)
    np.maximum(p, e, out=p)


def both_sides(eta: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return σ(η) and σ(−η), each exact where it is small."""
    q = np.negative(eta, dtype=np.float64)
    np.minimum(q, LARGEST_EXPONENT, out=q)
    np.exp(q, out=q)
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
    """Return n, Σy, Σp and Fisher weight per key, at η₀."""
    n, y, p_sum, fisher_sum = np.zeros((4, n_keys))
    for part in slices(len(keys)):
        indices, w = keys[part].astype(np.intp, copy=False), None if weight is None else weight[part]
        p, q = both_sides(logit[part])
        q *= p
        np.add.at(n, indices, 1.0 if w is None else w.astype(np.float64, copy=False))
        for into, values in ((y, label[part].astype(np.float64)), (p_sum, p), (fisher_sum, q)):
            np.add.at(into, indices, values if w is None else values * w)
    return Sums(n, y, p_sum, fisher_sum)


def slices(n_rows: int) -> Iterator[slice]:
    """Yield consecutive slices of at most ``SLICE_ROWS`` rows."""
    for first in range(0, n_rows, SLICE_ROWS):
        yield slice(first, min(first + SLICE_ROWS, n_rows))


def total(keys: NDArray[np.intp], values: Floats, n_keys: int) -> Floats:
    """Return Σ of the values per key."""
    return np.bincount(keys, values, n_keys).astype(np.float64, copy=False)


def stable_order(codes: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the order that sorts codes of 0 or more; equal codes keep theirs.

    Code and row in one integer: NumPy sorts integers ten times as fast as it sorts rows by a key.

    >>> stable_order(np.array([2, 0, 2, 1])).tolist()
    [1, 3, 0, 2]
    """
    row_bits = len(codes).bit_length()
    key: NDArray[np.int64] = codes.astype(np.int64) << row_bits
    key |= np.arange(len(codes))
    key.sort()
    key &= (1 << row_bits) - 1
    return key


def dot(left: Floats, right: Floats) -> float:
    """Return Σ left·right, added in one fixed order."""
    return float(np.einsum("i,i->", left, right))


def sum_of_logs(values: Floats) -> float:
    """Return Σ log(v) of values in [1, 2], with one logarithm per product of 512 of them.

    A logarithm per value would make the pass of a link 1.12 times as long, that of a loss 1.24 times.
    """
    whole = len(values) // _FACTORS * _FACTORS
    products = np.multiply.reduce(values[:whole].reshape(_FACTORS, -1), axis=0)
    return float(np.sum(np.log(products)) + np.sum(np.log(values[whole:])))


def homogeneous_offsets(sums: Sums, offset: Floats, precision: float) -> Floats:
    """Return the offsets that would be optimal if all rows of an item were equal.

    The curvature at a distant optimum differs from the local one. This model accounts for it: an item has n
    rows with p = σ(x + κ·shift) each, with the same Σp and the same slope Σp(1 − p) at ``offset``.
    """
    share = np.clip(
        np.divide(sums.p, sums.n, out=np.full(len(sums.n), 0.5), where=sums.n > 0), 1e-12, 1 - 1e-12
    )
    x = np.log(share) - np.log1p(-share)
    slope = sums.fisher / np.maximum(sums.n * share * (1.0 - share), 1e-300)
    shift = np.zeros(len(share))
    for _ in range(MODEL_STEPS):
        p = sigmoid(x + slope * shift)
        downhill = sums.y - sums.n * p - precision * (offset + shift)
        shift += np.clip(downhill / (slope * sums.n * p * (1.0 - p) + precision), -1.0, 1.0)
    return np.asarray(offset + shift)
