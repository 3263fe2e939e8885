"""The page that ``bench.py`` writes: tables, exponents, and whether each bar was met."""

import os
import platform
import re
from pathlib import Path
from typing import Any

import numpy as np
import refresh_speed

LARGE = 1e6  # the smallest log whose time is not dominated by the start
Figures = dict[str, Any]


INSTALLED = "## Installed size and import time"
"""A section that ``make sizes`` writes."""
EARLIER = "*From an earlier run; its machine and load differ from those above.*"


def section(text: str, title: str) -> str:
    """The section of a page under a title; empty if it has none."""
    found = re.search(rf"^{title}\n.*?(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    return found[0].rstrip("\n") if found else ""


def page(measured: Figures, note: str, before: str = "") -> str:
    """The page, with every bar and whether it was met.

    Sections of parts that were not measured stay as the page ``before`` has them, and say so. Sections that
    other programs or people write stay as they are.
    """
    parts = [HEAD, machine(measured), *([f"**Note.** {note}"] if note else [])]
    for name, (title, write) in SECTIONS.items():
        if name in measured:
            parts.append(f"{title}\n\n{write(measured[name]['figures'])}")
        elif kept := section(before, title):
            body = kept.removeprefix(title).lstrip("\n").removeprefix(EARLIER).lstrip("\n")
            parts.append(f"{title}\n\n{EARLIER}\n\n{body}")
    ours = {title for title, _ in SECTIONS.values()}
    others = [title for title in re.findall(r"^## .+$", before, re.MULTILINE) if title not in ours]
    parts += [section(before, re.escape(title)) for title in others]
    return "\n\n".join(parts) + "\n"


HEAD = """# Performance and accuracy

This page starts with speed, as `make bench` measures it. [Served over a year of
flights](#served-over-a-year-of-flights) and [the paper's analyses](#the-papers-analyses) show the accuracy.

Logs of the speed sections are synthetic: items with a bias each, 64-bit logits, users and times. Seconds are
wall-clock in a separate process and include reading unless stated otherwise. If other programs shared the
machine (see the load), read ratios and CPU seconds; exponents are fitted to CPU seconds. A missed target
(*bar*) is reported as missed."""


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
    titles = ("first", "next week's")
    ratios = ", ".join(
        f"{title} {found[name]['times_compare']:.1f} × ({_bar(found[name]['times_compare'], bar)})"
        for title, (name, bar) in zip(titles, refresh_speed.BARS.items(), strict=True)
    )
    return (
        f"Nine weeks of {found['rows_per_week']:,} rows, `base`, `platt` and `slc_eb`, all steps from "
        "extraction to promotion relative to one `slc-ops compare` of the same methods on the newest fold's "
        f"calibration and test weeks with intervals: {ratios}. Peak {peak:.1f} GB "
        f"({_bar(peak, refresh_speed.PEAK_BAR_GB)}). The bars are set at five million rows a week; the "
        f"rows after the peak are the seconds of each step.\n\n{refresh_speed.table(found)}"
    )


def fit_text(figures: list[Figures]) -> str:
    found = figures[0]
    ratio, cpu = found["seconds"] / found["scan"], found["cpu"] / found["scan_cpu"]
    bar = _bar(ratio, 3) if found["rows"] >= 2e7 else "bar 3"
    return (
        f"`slc-ops fit --method slc` on {found['rows']:,} rows, {found['items']:,} items: reading, fit, "
        f"digest, writing; the best of three runs each. {found['seconds']:.2f} s, {ratio:.2f} × the scan of "
        f"its four columns ({bar}); {found['cpu']:.2f} s of CPU time, {cpu:.2f} × the scan's. "
        f"Peak {found['peak'] / 1024:.2f} GB. The bar is set at 20 million rows."
    )


def ladder_text(figures: list[Figures]) -> str:
    found = figures[0]
    scan, scan_cpu, rows = found["scan"], found["scan_cpu"], found["rows"]

    def line(title: str, seconds: float, cpu: float, bar: str) -> list[str]:
        return [title, f"{seconds:.1f}", f"{seconds / scan:.1f}", bar, f"{cpu:.1f}", f"{cpu / scan_cpu:.1f}"]

    table = _table(
        ["", "seconds", "× scan", "", "CPU seconds", "× scan"],
        [
            line("scan of both files, all columns", scan, scan_cpu, ""),
            line(
                "14 methods fitted and scored, with intervals", found["seconds"], found["cpu"],
                _bar(found["seconds"] / scan, 12) if rows >= 2e7 else "",
            ),
        ],
    )  # fmt: skip
    return (
        f"{rows:,} + {rows:,} rows, {found['items']:,} items, reading included, as `slc-ops compare` runs "
        f"it; the best of three runs each. Peak {found['peak'] / 1024:.1f} GB. The bar is set at 20 + 20 "
        f"million rows.\n\n{table}"
    )


def large_text(figures: list[Figures]) -> str:
    found, peak = figures[0], figures[0]["peak"] / 1024
    bar = f" ({_bar(peak, 2)})" if found["rows"] >= 1e8 else " (the bar is set at 1e8 rows)"
    return (
        f"{found['rows']:,} + {found['rows']:,} rows, "
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
        "All methods fitted on one log and scored on another, one at a time, by a master and two workers of "
        "one core each on this machine, without the start of the session. "
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
    return "50,000 items.\n\n" + _growth(figures, "rows") + "\n\n" + "\n".join(lines)


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
        f"{figures[0]['rows']:,} rows. CPU seconds: {', '.join(powers)}. Largest peak "
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
        f"{figures[0]['rows']:,} rows with {figures[0]['distinct']:,.0f} items whose "
        "ids are text; each step in a separate process.\n\n"
        + _table(["step", "seconds", "CPU seconds", "peak GB", ""], table)
    )


def bins_text(figures: list[Figures]) -> str:
    power = exponent([f["bins"] for f in figures], [f["cpu"] for f in figures])
    return (
        f"`slc_t`, {figures[0]['rows']:,} rows, {figures[0]['items']:,} items: CPU "
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
    head = [
        "library",
        "log",
        "seconds",
        "CPU seconds",
        "× ours (CPU)",
        "AUC theirs / ours",
        "NLL theirs / ours",
    ]
    return (
        "Each library on a log that it can handle, the fit alone, data in memory; AUC and NLL on a second "
        "log of the same items. Ours is `slc_eb`, which also estimates its prior. netcal has no items; it "
        "represents Platt scaling here.\n\n" + _table(head, table)
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


SECTIONS = {
    "refresh": ("## The weekly refresh", refresh_text),
    "fit": ("## One fit, relative to a scan", fit_text),
    "ladder": ("## All methods, relative to a scan", ladder_text),
    "large": ("## All methods on the largest log", large_text),
    "cluster": ("## On a Spark cluster", cluster_text),
    "rows": ("## Growth in rows", rows_text),
    "items": ("## Growth in items", items_text),
    "wide": ("## Wide item spaces", wide_text),
    "bins": ("## Growth in time bins", bins_text),
    "peers": ("## Other libraries", peers_text),
}
"""In the order of the page: what users run every week comes first."""
