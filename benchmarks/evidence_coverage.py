"""Coverage of the 95 % intervals of a true difference, compared with the brute-force bootstrap.

Platt and SLC are fitted once; their true ΔNLL and ΔAUC are those of a very large population. Then new users
are drawn, a few hundred at a time, and each interval covers the truth or not. The backbone knows users'
abilities only in part, so a user's rows are correlated. Run ``python benchmarks/evidence_coverage.py
[TESTS]``; the expected count is 95 of 100, and chance allows 90 to 99.
"""

import sys
import time

import numpy as np
import pyarrow as pa

from slc_ops.evidence.auc import auc
from slc_ops.evidence.metrics import log_loss
from slc_ops.evidence.uncertainty import paired_difference
from slc_ops.methods import fit
from slc_ops.rows.interactions import InteractionLog

ITEMS, PER_USER = 200, 25
BIAS = np.random.default_rng(0).normal(0, 0.7, ITEMS)


def rows(users: int, seed: int) -> pa.Table:
    """Users of very different activity, with abilities that the backbone knows in part."""
    rng = np.random.default_rng([1, seed])
    user = np.repeat(np.arange(users), rng.geometric(1 / PER_USER, users))
    ability, known = rng.normal(0, 1, users), rng.normal(0, 0.7, users)
    item, logit = rng.integers(0, ITEMS, user.size), rng.normal(0, 0.6, user.size)
    logit = logit + ability[user]
    truth = logit + BIAS[item] + known[user]
    label = rng.random(user.size) < 1 / (1 + np.exp(-truth))
    columns = {
        "user_id": user,
        "item_id": item,
        "logit": logit,
        "label": label.astype(np.int8),
        "truth": truth,
    }
    return pa.table(columns)


def read(users: int, seed: int) -> tuple[InteractionLog, np.ndarray]:
    table = rows(users, seed)
    return InteractionLog.from_table(table.drop_columns("truth")), table["truth"].to_numpy()


def main(tests: int) -> None:
    calibration, _ = read(400, 10**6)
    slc, platt = fit("slc", calibration), fit("platt", calibration)

    population, truth = read(100_000, 10**6 + 1)
    p = 1 / (1 + np.exp(-truth))
    a, b = slc.apply(population), platt.apply(population)
    # The expected loss given the truth, as with infinitely many answers of these users.
    if_right = log_loss(np.ones(p.size), a) - log_loss(np.ones(p.size), b)
    if_wrong = log_loss(np.zeros(p.size), a) - log_loss(np.zeros(p.size), b)
    true_nll = float(np.mean(p * if_right + (1 - p) * if_wrong))
    true_auc = auc(population.label, a).value - auc(population.label, b).value
    print(f"truth: ΔNLL {true_nll:+.5f}, ΔAUC {true_auc:+.5f} ({population.n_rows:,} rows)")

    for users in (30, 100, 400):
        hits = {"auc": 0, "nll": 0}
        begun = time.perf_counter()
        for seed in range(tests):
            test, _ = read(users, seed)
            found = paired_difference(test.label, slc.apply(test), platt.apply(test), test.user_codes)
            hits["nll"] += found.nll.low <= true_nll <= found.nll.high
            hits["auc"] += found.auc.low <= true_auc <= found.auc.high
        took = time.perf_counter() - begun
        print(
            f"{users:>4} users: {100 * hits['nll'] / tests:.1f} of 100 intervals hold the true ΔNLL, "
            f"{100 * hits['auc'] / tests:.1f} the true ΔAUC ({tests} tests, {took:.0f} s)"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
