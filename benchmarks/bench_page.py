"""The page that ``bench.py`` writes: tables, exponents, and every bar with whether it was met."""

import os
import platform
import re
from pathlib import Path
from typing import Any

import numpy as np
import refresh_speed

LARGE = 1e6  # rows from which on an exponent says something about rows
Figures = dict[str, Any]


INSTALLED = "## Installed size and import time"
"""A section that ``make sizes`` writes."""


def installed_section(text: str) -> str:
    """That section of a page; empty where it has none."""
    found = re.search(rf"^{INSTALLED}\n.*?(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    return found[0] if found else ""


def page(measured: Figures, note: str) -> str:
    """The page, with every bar and whether it was met."""
    parts = [HEAD, machine(measured), *([f"**Note.** {note}"] if note else [])]
    parts += [WRITERS[name](measured[name]["figures"]) for name in WRITERS if name in measured]
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


def refresh_text(figures: list[Figures]) -> str:
    found = figures[0]
    peak = max(found[name]["peak_gb"] for name in refresh_speed.BARS)
    ratios = ", ".join(
        f"{title} {found[name]['times_compare']:.1f} × ({_bar(found[name]['times_compare'], bar)})"
        for title, (name, bar) in zip(("first", "next week's"), refresh_speed.BARS.items(), strict=True)
    )
    return (
        "## The weekly refresh\n\n"
        f"Nine weeks of {found['rows_per_week']:,} rows, 14 methods, all steps from extraction to promotion, "
        "beside one `compare` of the same methods on the newest fold's calibration and test weeks: "
        f"{ratios}. Peak {peak:.1f} GB ({_bar(peak, refresh_speed.PEAK_BAR_GB)}). The bars are set at five "
        "million rows a week; the columns after the peak are the seconds of each step.\n\n"
        f"{refresh_speed.table(found)}"
    )


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
        f"included, as `slc-ops compare` runs it; the best of three runs each. Peak "
        f"{found['peak'] / 1024:.1f} GB. The bar is set at 20 + 20 million rows.\n\n{table}"
    )


def large_text(figures: list[Figures]) -> str:
    found, peak = figures[0], figures[0]["peak"] / 1024
    bar = f" ({_bar(peak, 2)})" if found["rows"] >= 1e8 else " (the bar is set at 1e8 rows)"
    return (
        f"## The whole ladder on the largest log\n\n{found['rows']:,} + {found['rows']:,} rows, "
        f"{found['items']:,} items, 14 methods fitted and scored: {found['seconds']:.0f} s, "
        f"{found['cpu']:.0f} s of CPU time, peak {peak:.2f} GB{bar}."
    )


def cluster_text(figures: list[Figures]) -> str:
    whole = figures[-1]
    ratio = whole["spark"] / whole["local"]
    bar = _bar(ratio, 4) if whole["rows"] >= 2e7 else "the bar is set at 20 million rows"
    table = [
        [
            f"{f['rows']:,} + {f['rows']:,}",
            f"{f['session']:.0f}",
            f"{f['spark']:.1f}",
            f"{f['local']:.1f}" if "local" in f else "",
            f"{f['driver']:,.0f}",
            f"{f['jvm']:,.0f}",
        ]
        for f in figures
    ]
    head = ["rows", "session opens (s)", "Spark (s)", "local (s)", "driver, Python (MB)", "driver, JVM (MB)"]
    return (
        "## On a Spark cluster\n\nThe whole ladder fitted on one log and scored on another, one method at a "
        "time, by a master and two workers of one core each on this machine, the session not counted. "
        f"{ratio:.1f} × the local engine ({bar}).\n\n" + _table(head, table)
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
        peak = own[-1]["peak"] / 1024
        bar = _bar(peak, 2) if own[-1]["rows"] >= 1e8 else "the bar is set at 1e8 rows"
        lines.append(f"* `{method}` at {own[-1]['rows']:,} rows: peak {peak:.2f} GB ({bar}).")
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
    "refresh": refresh_text,
    "ladder": ladder_text, "large": large_text, "cluster": cluster_text, "rows": rows_text,
    "items": items_text, "wide": wide_text, "bins": bins_text, "peers": peers_text,
}  # fmt: skip
