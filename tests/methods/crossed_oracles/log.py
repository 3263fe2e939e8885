"""The small logs of the oracles; ``python log.py DIRECTORY`` writes one CSV file of each."""

import csv
import sys
from pathlib import Path

import numpy as np

VARIANCES = {
    "crossed": {"item": 0.5, "slope": 0.25, "group": 0.3, "user": 0.2},
    "nested": {"item": 0.4, "group": 0.6},
    "offset": {"item": 1.0, "slope": 0.1, "user": 0.5},
}
"""The logs: items in several groups, items in one group each, rows with a known offset; their variances."""


def columns(name: str) -> dict[str, np.ndarray]:
    """item, group, user, logit, offset and label of 600 rows."""
    rng = np.random.default_rng(sorted(VARIANCES).index(name))
    rows, items, groups, users = 600, 20, 5, 25
    item, user = rng.integers(0, items, rows), rng.integers(0, users, rows)
    group = rng.integers(0, groups, rows) if name == "crossed" else (np.arange(items) % groups)[item]
    logit = rng.normal(0.3, 1.4, rows)
    offset = rng.normal(0, 0.5, items)[item] if name == "offset" else np.zeros(rows)
    v = VARIANCES[name]
    effects = {
        each: rng.normal(0, v.get(each, 0.0) ** 0.5, 30) for each in ("item", "slope", "group", "user")
    }
    eta = 0.8 * logit - 0.2 + offset + effects["item"][item] + effects["slope"][item] * logit
    eta += effects["group"][group] + effects["user"][user]
    label = (rng.random(rows) < 1 / (1 + np.exp(-eta))).astype(int)
    return {"item": item, "group": group, "user": user, "logit": logit, "offset": offset, "label": label}


if __name__ == "__main__":
    for name in VARIANCES:
        found = columns(name)
        with (Path(sys.argv[1]) / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(found)
            writer.writerows(zip(*(values.tolist() for values in found.values()), strict=True))
