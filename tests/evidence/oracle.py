"""The AUC by its textbook formula: ranks of the positives, mid-ranks for ties."""

import numpy as np
from scipy.stats import rankdata


def rank_sum_auc(label: np.ndarray, score: np.ndarray) -> float:
    """The Mann-Whitney statistic of 0/1 labels over the number of (positive, negative) pairs."""
    positive = np.asarray(label) == 1
    P, N = int(positive.sum()), int((~positive).sum())
    return float((rankdata(score)[positive].sum() - P * (P + 1) / 2) / (P * N))
