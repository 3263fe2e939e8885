"""One command: measure, print a table of ratios, write ``docs/performance.md`` with the machine named.

    make bench                 # everything: about 25 minutes on two quiet cores
    make bench ROWS=1e6        # the same on smaller logs, in a few minutes; written to var/, not to docs/

Every figure is taken in a process of its own, so that peaks of memory are its own too. Ratios are between
figures of one run; exponents come from CPU seconds, which other programs on the machine hardly change. What
was measured lies in ``var/bench.json``; ``--resume`` measures only the parts that are not in it.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from correction_logs import write_log

HERE = Path(__file__).parent
KEPT = HERE.parent / "var" / "bench.json"
SEED_TEST = 2
LARGE = 1e6  # rows from which on an exponent says something about rows
SMALLER = 0.65  # items per row, where the largest log is too short for all of them
SIZES = (1e5, 3e5, 1e6, 3e6, 1e7, 3e7, 1e8)
ITEM_COUNTS = (1e2, 1e3, 1e4, 1e5, 1e6, 1e7)
WIDE_ITEMS = 13_000_000  # of which 20 million rows see a good ten million
WIDE = ("wide-fit", "wide-publish", "wide-load", "wide-apply")
BIN_COUNTS = (2, 4, 8, 16, 32, 64)
PEERS = ("scikit-learn", "mcgrad", "netcal", "statsmodels")
PATIENCE = 900  # seconds for a peer
SLOW_PEERS = ("mcgrad", "statsmodels")
Figures = dict[str, Any]


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
    docs = chosen.rows >= 1e8 and chosen.parts == parser.get_default("parts")
    out = chosen.out or HERE.parent / ("docs/performance.md" if docs else "var/performance.md")
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
    text = page(measured, chosen.note)
    out.write_text(text, encoding="utf-8")
    print("\n" + text + f"\nwritten to {out.name}")


# --- what is measured ---------------------------------------------------------------------------------


def ladder(rows: float) -> list[Figures]:
    """The whole ladder on two logs, beside the scan of their files."""
    size = int(min(rows, 2e7))
    for seed in (1, SEED_TEST):
        write_log(size, 50_000, seed=seed)
    scan = min((point("scan", size, 50_000) for _ in range(3)), key=lambda found: found["seconds"])
    return [point("ladder", size, 50_000) | {"scan": scan["seconds"], "scan_cpu": scan["cpu"]}]


def by_rows(rows: float) -> list[Figures]:
    """``slc`` and ``slc_eb`` as the log grows; the largest log only for ``slc``."""
    found = []
    for size in (s for s in SIZES if s <= rows):
        write_log(int(size), 50_000)
        for method in ("slc", "slc_eb") if size <= 3e7 else ("slc",):
            found.append(point(method, int(size), 50_000))
    return found


def by_items(rows: float) -> list[Figures]:
    """A log of fixed length with more and more items."""
    size = int(min(rows, 2e7))
    found = []
    for items in (i for i in ITEM_COUNTS if i <= size):
        write_log(size, int(items))
        found += [point(method, size, int(items)) for method in ("slc", "slc_eb")]
    return found


def wide(rows: float) -> list[Figures]:
    """The life of a parameter set with ten million text ids: fitted, written, published, loaded, applied."""
    size = int(min(rows, 2e7))
    items = min(WIDE_ITEMS, int(SMALLER * size))
    for seed in (1, SEED_TEST):
        write_log(size, items, kind="text", seed=seed)
    return [point(what, size, items) for what in WIDE]


def by_bins(rows: float) -> list[Figures]:
    """``slc_t`` with more and more time bins."""
    size = int(min(rows, 3e6))
    write_log(size, 5_000)
    return [point("slc_t", size, 5_000, bins=bins) for bins in BIN_COUNTS]


def peers(rows: float) -> list[Figures]:
    """Other libraries on logs that they can manage, and ours on the same."""
    found = []
    for name in PEERS:
        size, items = (20_000, 200) if name in SLOW_PEERS else (100_000, 1_000)
        logs = [write_log(size, items, seed=seed) for seed in (1, SEED_TEST)]
        ours = point("slc_eb", size, items, test=True)
        found.append({"peer": name, "rows": size, "items": items, "ours": ours, "theirs": peer(name, logs)})
    return found


PARTS: dict[str, Callable[[float], list[Figures]]] = {
    "ladder": ladder, "rows": by_rows, "items": by_items, "wide": wide, "bins": by_bins, "peers": peers,
}  # fmt: skip


def point(what: str, rows: int, items: int, *, bins: int = 10, test: bool = False) -> Figures:
    """One measurement in a process of its own."""
    asked = [what, str(rows), str(items), str(bins), str(int(test))]
    answer = subprocess.run(
        [sys.executable, str(HERE / "bench_point.py"), *asked], check=True, stdout=subprocess.PIPE, text=True
    )
    found: Figures = json.loads(answer.stdout.splitlines()[-1])
    print(f"{what:12s} {rows:>11,} rows {items:>10,} items {bins:>3} bins: {found}", flush=True)
    return found | {"what": what, "rows": rows, "items": items, "bins": bins}


def peer(name: str, logs: list[Path]) -> Figures:
    """Another library, in the environment that has it; why it is missing, where it is."""
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


# --- what is written ----------------------------------------------------------------------------------


def page(measured: Figures, note: str) -> str:
    """The page, with every bar and whether it was met."""
    parts = [HEAD, machine(measured), *([f"**Note.** {note}"] if note else [])]
    parts += [WRITERS[name](measured[name]["figures"]) for name in PARTS if name in measured]
    return "\n\n".join(parts) + "\n"


HEAD = """# Performance

Written by `make bench`. Logs are synthetic: items with a bias each, 64-bit logits, users and times. Seconds
are wall-clock in a process of its own, reading included unless said otherwise. Where other programs shared
the machine (the load says how many), read ratios and CPU seconds; exponents are fitted to CPU seconds. A bar
that was missed is said to be missed."""


def machine(measured: Figures) -> str:
    """CPU, cores, memory, versions; no names, no paths."""
    import pyarrow as pa

    cpu = next(
        (line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")),
        platform.machine(),
    )
    kilobytes = [int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")]
    loads = ", ".join(
        f"{name} {part['load']:.1f} ({part['minutes']:.0f} min)" for name, part in measured.items()
    )
    return (
        f"**Machine.** {cpu}, {len(os.sched_getaffinity(0))} cores, {sum(kilobytes) / 2**20:.0f} GB; "
        f"{platform.system()}, Python {platform.python_version()}, pyarrow {pa.__version__}, "
        f"NumPy {np.__version__}.\n\n**Load** when each part began: {loads}."
    )


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def ladder_text(figures: list[Figures]) -> str:
    found = figures[0]
    scan, scan_cpu, rows = found["scan"], found["scan_cpu"], found["rows"]
    ratio = found["seconds"] / scan
    cpu = found["cpu"]
    whole = [
        f"{found['seconds']:.1f}",
        f"{ratio:.1f}",
        _bar(ratio, 12),
        f"{cpu:.1f}",
        f"{cpu / scan_cpu:.1f}",
    ]
    table = _table(
        ["", "seconds", "× scan", "", "CPU seconds", "× scan"],
        [
            ["scan of both files, all columns", f"{scan:.1f}", "1.0", "", f"{scan_cpu:.1f}", "1.0"],
            ["14 methods fitted and scored", *whole],
        ],
    )
    return (
        f"## The whole ladder beside the scan\n\n{rows:,} + {rows:,} rows, {found['items']:,} items, reading "
        f"included, as `slc-ops compare` runs it. Peak {found['peak'] / 1024:.1f} GB. The bar is set at 20 "
        f"+ 20 million rows.\n\n{table}"
    )


def rows_text(figures: list[Figures]) -> str:
    lines = []
    for method in ("slc", "slc_eb"):
        own = [f for f in figures if f["what"] == method]
        large = [f for f in own if f["rows"] >= LARGE] if own[-1]["rows"] > LARGE else own
        over_all, power = (
            exponent([f["rows"] for f in part], [f["cpu"] for f in part]) for part in (own, large)
        )
        lines.append(
            f"* `{method}`: CPU seconds grow with rows^{power:.2f} from {large[0]['rows']:,} rows on "
            f"({_bar(power, 1.05)}); with rows^{over_all:.2f} over all sizes, the small ones mostly start-up."
        )
    largest = max((f for f in figures if f["what"] == "slc"), key=lambda f: f["rows"])
    lines.append(
        f"* Peak memory of `slc` at {largest['rows']:,} rows: {largest['peak'] / 1024:.2f} GB"
        + (
            f" ({_bar(largest['peak'] / 1024, 2)})."
            if largest["rows"] >= 1e8
            else " (the bar is set at 1e8 rows)."
        )
    )
    before, last = [f for f in figures if f["what"] == "slc_eb"][-2:] if len(figures) > 3 else (None, None)
    if before and last and last["rows"] < 1e8:
        per_row = (last["peak"] - before["peak"]) / (last["rows"] - before["rows"])
        there = (last["peak"] + per_row * (1e8 - last["rows"])) / 1024
        lines.append(
            f"* `slc_eb` keeps rows for its hold-out, {per_row * 2**20:.0f} bytes a row more. Not measured "
            f"at 1e8 rows; by its growth it would take about {there:.0f} GB there ({_bar(there, 2)})."
        )
    return "## Growth in rows\n\n50,000 items.\n\n" + _growth(figures, "rows") + "\n\n" + "\n".join(lines)


def items_text(figures: list[Figures]) -> str:
    largest = max(figures, key=lambda f: (f["items"], f["peak"]))
    bar = (
        f" ({_bar(largest['peak'] / 1024, 8)})"
        if largest["items"] >= 1e7
        else " (the bar is set at 1e7 items)"
    )
    powers = []
    for method in ("slc", "slc_eb"):
        own = [f for f in figures if f["what"] == method]
        powers.append(f"`{method}` items^{exponent([f['items'] for f in own], [f['cpu'] for f in own]):.2f}")
    return (
        f"## Growth in items\n\n{figures[0]['rows']:,} rows. CPU seconds: {', '.join(powers)}. Largest peak "
        f"{largest['peak'] / 1024:.2f} GB at {largest['items']:,} items{bar}.\n\n" + _growth(figures, "items")
    )


def wide_text(figures: list[Figures]) -> str:
    said = {
        "wide-fit": "read the log, fit `slc_eb`, write the set",
        "wide-publish": "publish the set to a registry on SQLite and files",
        "wide-load": "`Corrector.from_directory`: verify, load, answer one row",
        "wide-apply": "load the set, correct a file of as many rows",
    }
    table = [
        [
            said[f["what"]],
            f"{f['seconds']:.1f}",
            f"{f['cpu']:.1f}",
            f"{f['peak'] / 1024:.2f}",
            _bar(f["peak"] / 1024, 8),
        ]
        for f in figures
    ]
    return (
        f"## Wide item spaces\n\n{figures[0]['rows']:,} rows with {figures[0]['distinct']:,.0f} items whose "
        "ids are text; each step in a process of its own.\n\n"
        + _table(["step", "seconds", "CPU seconds", "peak GB", ""], table)
    )


def bins_text(figures: list[Figures]) -> str:
    power = exponent([f["bins"] for f in figures], [f["cpu"] for f in figures])
    return (
        f"## Growth in time bins\n\n`slc_t`, {figures[0]['rows']:,} rows, {figures[0]['items']:,} items: CPU "
        f"seconds grow with bins^{power:.2f}.\n\n" + _growth(figures, "bins")
    )


def peers_text(figures: list[Figures]) -> str:
    table = []
    for f in figures:
        ours, theirs = f["ours"], f["theirs"]
        log = f"{f['rows']:,} rows, {f['items']:,} items"
        if "missing" in theirs:
            table.append([f["peer"], log, f"not measured: {theirs['missing']}", "", "", "", ""])
            continue
        name = f"{f['peer']} {theirs['version']}: {theirs['what']}"
        ratio = f"{theirs['fit_cpu'] / ours['fit_cpu']:,.1f}"
        scores = [f"{theirs[metric]:.4f} / {ours[metric]:.4f}" for metric in ("auc", "nll")]
        table.append([name, log, f"{theirs['fit']:.2f}", f"{theirs['fit_cpu']:.2f}", ratio, *scores])
    head = ["peer", "log", "seconds", "CPU seconds", "× ours (CPU)", "AUC theirs / ours", "NLL theirs / ours"]
    return (
        "## Beside other libraries\n\nEach on a log that it can manage, the fit alone, data in memory; AUC "
        "and NLL on a second log of the same items. Ours is `slc_eb`, which also chooses its prior. netcal "
        "knows no items: it answers another question, and stands here for Platt scaling.\n\n"
        + _table(head, table)
    )


def _growth(figures: list[Figures], axis: str) -> str:
    rows = [
        [f"`{f['what']}`", f"{f[axis]:,}", f"{f['seconds']:.2f}", f"{f['fit']:.2f}", f"{f['cpu']:.2f}",
         f"{f['cpu'] / f['rows'] * 1e9:.0f}", f"{f['peak']:,.0f}"]
        for f in figures
    ]  # fmt: skip
    return _table(
        ["method", axis, "seconds", "of them the fit", "CPU seconds", "CPU ns a row", "peak MB"], rows
    )


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _bar(found: float, bar: float) -> str:
    return f"bar {bar:g}: met" if found <= bar else f"bar {bar:g}: **missed**"


def exponent(sizes: list[float], costs: list[float]) -> float:
    """The slope of log cost over log size."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0]) if len(sizes) > 1 else float("nan")


WRITERS = {
    "ladder": ladder_text, "rows": rows_text, "items": items_text, "wide": wide_text, "bins": bins_text,
    "peers": peers_text,
}  # fmt: skip


if __name__ == "__main__":
    main()
