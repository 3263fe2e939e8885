"""The frozen models of the MovieLens control, all in scikit-learn, without a GPU.

* ``mf``: logit = μ + bᵤ + bᵢ + pᵤ·qᵢ. Biases by logistic regression on one-hot users and films; factors by a
  truncated SVD of its standardised residuals (y − p)/√(p(1−p)).
* ``ncf``: neural collaborative filtering after He et al.: a multilayer perceptron on one-hot users and films,
  whose first layer *is* the embedding table, learned with the other layers.
* ``users``: user biases only, the contrast without film parameters.

The models must be strong. A factorisation with too much shrinkage leaves its films' biases uncorrected and is
no negative control (C = 0.1 leaves 1.9 points of AUC); these leave about a tenth of a point.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

BACKBONES = ("mf", "ncf")
CONTRAST = "users"
RANK = 8
FACTOR_SHARE = 0.6  # the factors overfit on so few ratings; this share of them ranks best

Logits = Callable[[pa.Table], NDArray[np.float64]]


def train(backbone: str, ratings: pa.Table, shape: tuple[int, int], seed: int) -> Logits:
    """Fit a backbone to ratings of ``shape`` = (users, films); return its logit function."""
    if backbone == CONTRAST:
        return _user_rates(ratings, shape)
    if backbone == "ncf":
        return _network(ratings, shape, seed)
    return _factorisation(ratings, shape, seed)


def _factorisation(ratings: pa.Table, shape: tuple[int, int], seed: int) -> Logits:
    from scipy.sparse import csr_matrix
    from sklearn.decomposition import TruncatedSVD
    from sklearn.linear_model import LogisticRegression

    biases = LogisticRegression(C=1.0, max_iter=500).fit(_one_hot(ratings, shape), _positive(ratings))
    p = biases.predict_proba(_one_hot(ratings, shape))[:, 1]
    residual = (_positive(ratings) - p) / np.sqrt(p * (1 - p))
    matrix = csr_matrix((residual, (_codes(ratings, "user"), _codes(ratings, "item"))), shape=shape)
    svd = TruncatedSVD(RANK, random_state=seed)
    users, films = svd.fit_transform(matrix), svd.components_.T

    def logits(rows: pa.Table) -> NDArray[np.float64]:
        interaction = np.einsum("ij,ij->i", users[_codes(rows, "user")], films[_codes(rows, "item")])
        return np.asarray(biases.decision_function(_one_hot(rows, shape)) + FACTOR_SHARE * interaction)

    return logits


def _network(ratings: pa.Table, shape: tuple[int, int], seed: int) -> Logits:
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn

    network = MLPClassifier((32, 16), alpha=0.01, batch_size=256, max_iter=4, random_state=seed)
    # The limit of four epochs is the regularisation; small products are faster on one thread.
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)
        network.fit(_one_hot(ratings, shape), _positive(ratings))

    def logits(rows: pa.Table) -> NDArray[np.float64]:
        p = np.clip(network.predict_proba(_one_hot(rows, shape))[:, 1], 1e-6, 1 - 1e-6)
        return np.asarray(np.log(p / (1 - p)))

    return logits


def _user_rates(ratings: pa.Table, shape: tuple[int, int]) -> Logits:
    from sklearn.linear_model import LogisticRegression

    def users(rows: pa.Table) -> "csr_matrix":
        return _one_hot(rows, shape)[:, : shape[0]]

    model = LogisticRegression(C=1.0, max_iter=500).fit(users(ratings), _positive(ratings))
    return lambda rows: np.asarray(model.decision_function(users(rows)))


def _one_hot(rows: pa.Table, shape: tuple[int, int]) -> "csr_matrix":
    from scipy.sparse import csr_matrix

    indices = np.stack([_codes(rows, "user"), shape[0] + _codes(rows, "item")], axis=1).ravel()
    pointers = np.arange(0, len(indices) + 1, 2)
    return csr_matrix((np.ones(len(indices)), indices, pointers), shape=(rows.num_rows, sum(shape)))


def _codes(rows: pa.Table, name: str) -> NDArray[np.int64]:
    return np.asarray(rows.column(name).to_numpy(), dtype=np.int64)


def _positive(rows: pa.Table) -> NDArray[Any]:
    return np.asarray(rows.column("positive").to_numpy())
