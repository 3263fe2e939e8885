"""A backbone without item parameters: performance factors of the student on the skill.

    logit = β_s + γ_s · log(1 + successes) + ρ_s · log(1 + failures)

with the student's earlier successes and failures on skill s, and one intercept and two slopes per skill. The
skill is its only information about the item, so the item's own effect is left for the correction.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.base.errors import OneClassError
from slc_ops.paper.datasets.split import codes, starts


def backbone_logits(rows: pa.Table, train: np.ndarray) -> np.ndarray:
    """Return the logits of all rows from a logistic regression on the rows with ``train`` True.

    ``rows`` are ordered by student and time. Rows without a skill form a separate skill.
    """
    from scipy import sparse
    from sklearn.linear_model import LogisticRegression

    label = rows["label"].to_numpy().astype(np.int8)
    skill = codes(pc.fill_null(rows["group_id"], ""))
    success, failure = earlier_counts(codes(rows["user_id"]), skill, label)
    if len(np.unique(label[train])) < 2:
        raise OneClassError(
            "the first 60 % of the students' histories have one label only; no backbone can be trained"
        )
    n, k = len(label), int(skill.max()) + 1
    each = np.arange(n)
    features = sparse.csr_matrix(
        (
            np.concatenate([np.ones(n), np.log1p(success), np.log1p(failure)]),
            (np.tile(each, 3), np.concatenate([skill, k + skill, 2 * k + skill])),
        ),
        shape=(n, 3 * k),
    )
    model = LogisticRegression(C=1.0, max_iter=300)
    model.fit(features[train], label[train])
    logits: np.ndarray = model.decision_function(features)
    return logits


def earlier_counts(user: np.ndarray, skill: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return, per row, the student's earlier successes and failures on the skill.

    >>> earlier_counts(np.array([0, 0, 0, 1]), np.array([5, 5, 5, 5]), np.array([1, 0, 1, 1]))
    (array([0, 1, 1, 0]), array([0, 0, 1, 0]))
    """
    group = user.astype(np.int64) * (int(skill.max(initial=0)) + 1) + skill
    order = np.argsort(group, kind="stable")
    begin = starts(group[order])[1]
    right = np.r_[0, np.cumsum(label[order].astype(np.int64))]
    successes = right[:-1] - right[begin]
    failures = np.arange(len(order)) - begin - successes
    result = np.empty((2, len(order)), np.int64)
    result[:, order] = successes, failures
    return result[0], result[1]
