"""Kalman filter and Rauch-Tung-Striebel smoother of a local level, for all items at once.

For each item (row) and time bin t (column), with observation z of variance 1/W where ``seen``:

    u_t = u_{t−1} + ε_t,  ε_t ~ N(0, q),  u_0 ~ N(0, P₀)   (u_0 precedes the first bin)
    z_t = u_t + ν_t,      ν_t ~ N(0, 1/W_t)

Forward:  P⁻_t = P_{t−1} + q,  K = P⁻W/(1 + P⁻W),  u_t = u_{t−1} + K(z − u_{t−1}),  P_t = (1 − K)P⁻_t
Backward: J = P_t/P⁻_{t+1},  û_t = u_t + J(û_{t+1} − u_t),  P̂_t = P_t + J²(P̂_{t+1} − P⁻_{t+1})

The loops run over bins; every step works on all items.
"""

import numpy as np
from numpy.typing import NDArray

from slc_ops.numerics.kernels import Floats


def smooth(z: Floats, W: Floats, seen: NDArray[np.bool_], *, q: float, P0: float) -> tuple[Floats, Floats]:
    """Return the smoothed level and its variance, items in rows, bins in columns.

    >>> one = smooth(np.array([[1.0]]), np.array([[1.0]]), np.array([[True]]), q=0.0, P0=1.0)
    >>> [values.tolist() for values in one]
    [[[0.5]], [[0.5]]]
    """
    items, bins = z.shape
    level, variance, predicted = np.empty((items, bins)), np.empty((items, bins)), np.empty((items, bins))
    u, P = np.zeros(items), np.full(items, P0)
    for t in range(bins):
        prior = P + q
        information = np.where(seen[:, t], prior * W[:, t], 0.0)
        gain = information / (1.0 + information)
        u = u + gain * np.where(seen[:, t], z[:, t] - u, 0.0)
        P = prior / (1.0 + information)
        level[:, t], variance[:, t], predicted[:, t] = u, P, prior
    for t in range(bins - 2, -1, -1):
        J = variance[:, t] / predicted[:, t + 1]
        level[:, t] += J * (level[:, t + 1] - level[:, t])
        variance[:, t] += J * J * (variance[:, t + 1] - predicted[:, t + 1])
    return level, variance
