"""The paper's synthetic regime map, compared with its bounds: ``python benchmarks/paper_regime.py``.

All 30 cells with five seeds, for 1PL and 2PL, as a table; ends with status 1 if a bound is broken.
"""

import sys
from time import perf_counter

from slc_ops.paper.regime import DENSITIES, DRIFTS, regime_map

PANELS = (("static_gain", 100, "(a) static minus Platt, points of AUC"),
          ("tracking_gain", 100, "(b) tracking minus static, points of AUC"),
          ("offset_mse", 1, "(c) mean squared error of the tracked offsets"))  # fmt: skip


def broken(rows: list[dict]) -> list[str]:
    """The paper's statements that the map contradicts."""
    found = []
    for row in rows:
        where = f"{row['model']}, Q = {row['q']:g}, {row['obs_per_item_and_bin']} per item and bin"
        dense = row["obs_per_item_and_bin"] >= 30
        if row["q"] == 0 and row["obs_per_item_and_bin"] == 300 and abs(row["static_gain"]) > 0.001:
            found.append(f"{where}: gain without drift {row['static_gain']:+.4f}")
        if row["q"] > 0 and (dense or row["q"] >= 0.02) and row["static_gain"] <= 0:
            found.append(f"{where}: no gain, {row['static_gain']:+.4f}")
        if row["tracking_gain"] > 0.007:
            found.append(f"{where}: tracking adds {row['tracking_gain']:+.4f}")
    still = next(row for row in rows if row["q"] == 0 and row["obs_per_item_and_bin"] == 300)
    if still["offset_mse"] > (0.006 if still["model"] == "1pl" else 0.015):
        found.append(f"{still['model']}: offset error without drift {still['offset_mse']:.4f}")
    return found


def main() -> int:
    faults = []
    for model in ("1pl", "2pl"):
        begun = perf_counter()
        rows = regime_map(model)
        faults += broken(rows)
        print(f"{model}, {perf_counter() - begun:.0f} s")
        for column, factor, title in PANELS:
            print(f"\n{title}\n| Q \\ observations | " + " | ".join(map(str, DENSITIES)) + " |")
            print("|---|" + "---|" * len(DENSITIES))
            for drift in DRIFTS:
                line = [factor * row[column] for row in rows if row["q"] == drift]
                figures = (f"{value:+.2f}" if factor == 100 else f"{value:.4f}" for value in line)
                print(f"| {drift:g} | " + " | ".join(figures) + " |")
        print()
    for fault in faults:
        print(f"broken: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
