"""How far back may a fit look over windows without rows?  Real logs with gaps, rule by rule.

    python benchmarks/memory_limits.py --data DIR [--logs flights,films] [--rows 2000]

Gaps of two, five and eight windows are cut into every log of :mod:`benchmarks.real_logs`, every five windows
from the tenth on. Platt and ``slc_eb`` are fitted on what a rule remembers and scored on the second to fifth
window after each gap. A rule ``4 in 12, 8 in 26`` says: the link learns from the last 4 windows with rows
among the 12 before, the offsets from the last 8 among 26. The table is NLL minus that of ``4 in 4, 8 in 8``,
which counts calendar windows.
"""

import argparse
import sys
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harm_replay import some_users
from benchmarks.real_logs import LOGS, in_contract
from slc_ops.methods import FitOptions, fit_prepared
from slc_ops.methods.fitting.calibration import Calibration
from slc_ops.rows.interactions import InteractionLog

RULES = {
    "4 in 4, 8 in 8": (4, 4, 8, 8),
    "4 in 4, 8 in 26": (4, 4, 8, 26),
    "4 in 8, 8 in 26": (4, 8, 8, 26),
    "4 in 12, 8 in 26": (4, 12, 8, 26),
    "4 in 26, 8 in 26": (4, 26, 8, 26),
    "2 in 26, 8 in 26": (2, 26, 8, 26),
}
METHODS = ("platt", "slc_eb")
OPTIONS = FitOptions(threads=1)
LEAST_ROWS = 100


def windows_of(rows: pd.DataFrame, days: int) -> dict[int, pa.Table]:
    """The rows of every window that has some."""
    times = rows["event_time"]
    first = times.min().normalize()
    first -= pd.Timedelta(days=first.day_of_week if days == 7 else 0)
    number = ((times - first) // pd.Timedelta(days=days)).to_numpy()
    return {
        int(k): pa.table(
            {
                "item_id": pa.array(part["item_id"].astype(str)),
                "user_id": pa.array(part["user_id"].astype(str)),
                "event_time": part["event_time"].astype("int64").to_numpy() / 3.6e9,
                "label": part["label"].to_numpy().astype(np.int8),
                "logit": part["logit"].to_numpy(),
            }
        )
        for k, part in rows.groupby(number)
    }


def memory(usable: Collection[int], window: int, count: int, age: int) -> tuple[int, ...]:
    """The last ``count`` usable windows of the ``age`` before.

    >>> memory({0, 1, 2, 8}, 9, 2, 4), memory({0, 1, 2, 8}, 9, 2, 8)
    ((8,), (2, 8))
    """
    return tuple(k for k in range(window - age, window) if k in usable)[-count:]


def losses(tables: dict[int, pa.Table], link: tuple[int, ...], offsets: tuple[int, ...], window: int) -> list:
    """NLL of each method on the window."""
    short, long = (
        Calibration(InteractionLog.from_table(pa.concat_tables([tables[k] for k in part])), None, OPTIONS)
        for part in (link, offsets)
    )
    label, test = tables[window]["label"].to_numpy() != 0, InteractionLog.from_table(tables[window])
    found = []
    for method in METHODS:
        p = np.clip(fit_prepared(method, short, long).apply(test, threads=1), 1e-6, 1 - 1e-6)
        found.append(-float(np.mean(np.where(label, np.log(p), np.log1p(-p)))))
    return found


def measured(tables: dict[int, pa.Table]) -> np.ndarray:
    """Per scored window, rule and method the NLL."""
    first, found = min(tables), []
    for gap in (2, 5, 8):
        for begin in range(first + 9, first + len(tables) - gap - 5, 5):
            usable = set(tables) - set(range(begin, begin + gap))
            for window in range(begin + gap + 1, begin + gap + 5):
                if window not in usable or tables[window].num_rows < LEAST_ROWS:
                    continue
                both = [
                    (memory(usable, window, link, age), memory(usable, window, offsets, old))
                    for link, age, offsets, old in RULES.values()
                ]
                if all(link for link, _ in both):
                    fitted = {each: losses(tables, *each, window) for each in set(both)}
                    found.append([fitted[each] for each in both])
    return np.array(found)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--logs", default=",".join(name for name, (_, days) in LOGS.items() if days == 7))
    parser.add_argument("--rows", type=int, default=2000, help="of a window, at most and on average")
    asked = parser.parse_args()
    print(f"{'log':14}{'method':8}{'windows':>8}", *(f"{rule:>17}" for rule in RULES))
    for name in asked.logs.split(","):
        make, days = LOGS[name]
        rows = some_users(in_contract(make(asked.data)), days, asked.rows)
        found = measured(windows_of(rows, days))
        for k, method in enumerate(METHODS):
            change = (found[:, :, k] - found[:, :1, k]).mean(axis=0)
            print(f"{name:14}{method:8}{len(found):>8}", *(f"{each:>+17.5f}" for each in change), flush=True)


if __name__ == "__main__":
    main()
