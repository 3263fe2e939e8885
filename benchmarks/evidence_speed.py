"""Time and memory of the AUC of 20 million rows and of paired intervals on a million.

Run ``python benchmarks/evidence_speed.py [ROWS]``. Memory is the process's peak beyond the input arrays.
"""

import resource
import sys
import time

import numpy as np

from slc_ops.evidence.auc import auc
from slc_ops.evidence.metrics import metrics_of
from slc_ops.evidence.uncertainty import multiplicities, paired_difference


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def timed(name: str, rows: int, input_mb: float, call) -> None:
    before, begun = peak_mb(), time.perf_counter()
    call()
    seconds = time.perf_counter() - begun
    extra = peak_mb() - before
    print(f"{name:<42} {rows:>11,} rows {seconds:7.2f} s   +{extra:6.0f} MB on {input_mb:.0f} MB of input")


def metrics(rows: int) -> None:
    rng = np.random.default_rng(0)
    probability = rng.random(rows)
    label = (rng.random(rows, dtype=np.float32) < probability).astype(np.float64)
    size = (label.nbytes + probability.nbytes) / 2**20
    timed("auc, continuous scores", rows, size, lambda: auc(label, probability))
    timed("auc, logits of both signs", rows, size, lambda: auc(label, 4 * probability - 2))
    rounded = np.round(probability, 3)
    timed("auc, 1,001 distinct scores", rows, size, lambda: auc(label, rounded))
    timed("all metrics", rows, size, lambda: metrics_of(label, probability))


def paired(rows: int) -> None:
    rng = np.random.default_rng(0)
    few = min(rows, 1_000_000)
    p = rng.random(few)
    y = (rng.random(few) < p).astype(np.float64)
    other = np.clip(p + rng.normal(0, 0.05, few), 0, 1)
    for users in (1_000, 50_000, few):
        user = rng.integers(0, users, few)
        multiplicities.cache_clear()
        name = f"paired intervals, 1,000 x {users:,} users"
        timed(name, few, 4 * p.nbytes / 2**20, lambda user=user: paired_difference(y, p, other, user))


if __name__ == "__main__":
    asked = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000_000
    metrics(asked)
    paired(asked)
