"""Run all benchmarks, print a table of ratios and write ``docs/performance.md`` with the machine.

    make bench                 # everything: a quarter of an hour on two quiet cores
    make bench ROWS=1e6        # the same on smaller logs, in a few minutes; written to var/, not to docs/

Every figure comes from a separate process, so peak memory is its own. Ratios compare figures of one run;
exponents use CPU seconds, which other programs on the machine hardly change. Results are stored in
``var/bench.json``; ``--resume`` measures only the missing parts. Sections of parts without results stay on
the page, marked as from an earlier run.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import refresh_speed
from bench_page import Figures, page
from correction_logs import write_log

HERE = Path(__file__).parent
KEPT = HERE.parent / "var" / "bench.json"
SEED_TEST = 2
SMALLER = 0.65  # items per row, if the largest log is too short for all of them
SIZES = (1e5, 3e5, 1e6, 3e6, 1e7, 3e7, 1e8)
ITEM_COUNTS = (1e2, 1e3, 1e4, 1e5, 1e6, 1e7)
WIDE_ITEMS = 13_000_000  # of which about ten million occur in 20 million rows
WIDE = ("wide-fit", "wide-publish", "wide-load", "wide-apply")
BIN_COUNTS = (2, 4, 8, 16, 32, 64)
PEERS = ("scikit-learn", "mcgrad", "netcal", "statsmodels")
PATIENCE = 900  # time limit of another library, in seconds
SLOW_PEERS = ("mcgrad", "statsmodels")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e8, help="largest log (default 1e8)")
    parser.add_argument("--parts", default=",".join(PARTS), help="what to measure")
    parser.add_argument("--resume", action="store_true", help="keep the parts that were measured before")
    parser.add_argument(
        "--out", type=Path, help="page to write (default docs/performance.md, var/ when smaller)"
    )
    parser.add_argument("--note", default="", help="a sentence for the page, about the circumstances")
    chosen = parser.parse_args()
    out = chosen.out or HERE.parent / ("docs" if chosen.rows >= 1e8 else "var") / "performance.md"
    out.parent.mkdir(parents=True, exist_ok=True)
    KEPT.parent.mkdir(exist_ok=True)
    measured = json.loads(KEPT.read_text()) if chosen.resume and KEPT.exists() else {}
    for part in chosen.parts.split(","):
        if part not in measured:
            print(f"== {part}", flush=True)
            begun, load = time.time(), os.getloadavg()[0]
            figures = PARTS[part](chosen.rows)
            measured[part] = {"figures": figures, "load": load, "minutes": (time.time() - begun) / 60}
            KEPT.write_text(json.dumps(measured, indent=1))
    text = page(measured, chosen.note, out.read_text(encoding="utf-8") if out.exists() else "")
    out.write_text(text, encoding="utf-8")
    print("\n" + text + f"\nwritten to {out.name}")


# --- measurements --------------------------------------------------------------------------------------


def refresh(rows: float) -> list[Figures]:
    """The weekly refresh, first and next week, relative to one comparison of the same methods."""
    return [refresh_speed.measure(int(min(rows / 20, refresh_speed.FULL)))]


def ladder(rows: float) -> list[Figures]:
    """All methods on two logs, relative to a scan of their files."""
    size = int(min(rows, 2e7))
    for seed in (1, SEED_TEST):
        write_log(size, 50_000, seed=seed)
    scan, whole = (best_of_three(what, size) for what in ("scan", "ladder"))
    return [whole | {"scan": scan["seconds"], "scan_cpu": scan["cpu"]}]


def one_fit(rows: float) -> list[Figures]:
    """``slc-ops fit`` on one file, relative to a scan of the columns that it reads."""
    size = int(min(rows, 2e7))
    write_log(size, 50_000)
    scan, whole = (best_of_three(what, size) for what in ("scan-fit", "fit"))
    return [whole | {"scan": scan["seconds"], "scan_cpu": scan["cpu"]}]


def best_of_three(what: str, size: int) -> Figures:
    """The fastest of three processes."""
    return min((point(what, size, 50_000) for _ in range(3)), key=lambda found: found["seconds"])


def by_rows(rows: float) -> list[Figures]:
    """``slc`` and ``slc_eb`` as the log grows."""
    found = []
    for size in (s for s in SIZES if s <= rows):
        write_log(int(size), 50_000)
        found += [point(method, int(size), 50_000) for method in ("slc", "slc_eb")]
    return found


def large(rows: float) -> list[Figures]:
    """All methods on the largest log, scored on another of that length: peak memory."""
    for seed in (1, SEED_TEST):
        write_log(int(rows), 50_000, seed=seed)
    return [point("ladder", int(rows), 50_000)]


def cluster(rows: float) -> list[Figures]:
    """All methods on a Spark cluster of two workers on loopback and on the local engine; driver memory."""
    whole = int(min(rows, 2e7))
    return [on_cluster(whole // 10, "spark"), on_cluster(whole, "both")]


def by_items(rows: float) -> list[Figures]:
    """A log of fixed length with an increasing number of items."""
    size = int(min(rows, 2e7))
    found = []
    for items in (i for i in ITEM_COUNTS if i <= size):
        write_log(size, int(items))
        found += [point(method, size, int(items)) for method in ("slc", "slc_eb")]
    return found


def wide(rows: float) -> list[Figures]:
    """A parameter set with ten million text ids: fitted, written, published, loaded, applied."""
    size = int(min(rows, 2e7))
    items = min(WIDE_ITEMS, int(SMALLER * size))
    for seed in (1, SEED_TEST):
        write_log(size, items, kind="text", seed=seed)
    return [point(what, size, items) for what in WIDE]


def by_bins(rows: float) -> list[Figures]:
    """``slc_t`` with an increasing number of time bins."""
    size = int(min(rows, 3e6))
    write_log(size, 5_000)
    return [point("slc_t", size, 5_000, bins=bins) for bins in BIN_COUNTS]


def peers(rows: float) -> list[Figures]:
    """Other libraries on logs that they can handle, and ours on the same."""
    found = []
    for name in PEERS:
        size, items = (20_000, 200) if name in SLOW_PEERS else (100_000, 1_000)
        logs = [write_log(size, items, seed=seed) for seed in (1, SEED_TEST)]
        ours = point("slc_eb", size, items, test=True)
        found.append({"peer": name, "rows": size, "items": items, "ours": ours, "theirs": peer(name, logs)})
    return found


PARTS: dict[str, Callable[[float], list[Figures]]] = {
    "refresh": refresh, "fit": one_fit, "ladder": ladder, "large": large, "cluster": cluster, "rows": by_rows,
    "items": by_items, "wide": wide, "bins": by_bins, "peers": peers,
}  # fmt: skip


def point(what: str, rows: int, items: int, *, bins: int = 10, test: bool = False) -> Figures:
    """One measurement in a separate process."""
    asked = [what, str(rows), str(items), str(bins), str(int(test))]
    answer = subprocess.run(
        [sys.executable, str(HERE / "bench_point.py"), *asked], check=True, stdout=subprocess.PIPE, text=True
    )
    found: Figures = json.loads(answer.stdout.splitlines()[-1])
    print(f"{what:12s} {rows:>11,} rows {items:>10,} items {bins:>3} bins: {found}", flush=True)
    return found | {"what": what, "rows": rows, "items": items, "bins": bins}


def on_cluster(rows: int, engines: str) -> Figures:
    """All methods on both engines, or on one of them."""
    asked = [str(rows), "50000", "all", engines]
    answer = subprocess.run(
        [sys.executable, str(HERE / "spark_speed.py"), *asked],
        check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    found: Figures = json.loads(answer.stdout.splitlines()[-1])
    print(f"cluster {rows:,} rows: {found}", flush=True)
    return found | {"rows": rows, "items": 50_000}


def peer(name: str, logs: list[Path]) -> Figures:
    """Another library in its environment, or the reason why it is missing."""
    own = HERE.parent / ".venv-bench" / "bin" / "python"
    python = str(own) if own.exists() else sys.executable
    try:
        answer = subprocess.run(
            [python, str(HERE / "bench_peer.py"), name, *map(str, logs)],
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        found = {"missing": f"took more than {PATIENCE // 60} minutes"}
    else:
        last = (answer.stdout if answer.returncode == 0 else answer.stderr).strip().splitlines()[-1:]
        found = json.loads(last[0]) if answer.returncode == 0 else {"missing": last[0] if last else "failed"}
    print(f"{name}: {found}", flush=True)
    return found


if __name__ == "__main__":
    main()
