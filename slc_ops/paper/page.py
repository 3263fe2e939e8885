"""The paper's analyses as files: a CSV and a Markdown table each, figures, and an overview page."""

import csv
import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from slc_ops.base.files import replacing_directory, write_text
from slc_ops.base.text import MISSING, count, number
from slc_ops.evidence.uncertainty import Interval
from slc_ops.paper.analyses import SETTINGS, Rows
from slc_ops.reporting.figures.forests import Row, forest
from slc_ops.reporting.style import (
    ACCENT,
    CHAMPION,
    INK,
    MUTED,
    label_end,
    label_ends,
    new_figure,
    save,
    styled,
)

TITLES = {
    "ladder": "Every method on the test rows",
    "over_time": "AUC in ten slices of the test rows by time",
    "density": "SLC minus ResCal+Iso and minus Platt, by observations per item",
    "calibration_fraction": "AUC and NLL by the share of the calibration rows, SLC and Platt",
    "prior_variance": "AUC and NLL by prior variance, SLC and the backbone",
    "link": "AUC, NLL and ECE by link",
    "ridge": "Converged ridge minus the single step of SLC",
    "detectability": "Smallest detectable drift of the calibration rows",
    "regime_1pl": "Synthetic regime map, 1PL",
    "regime_2pl": "Synthetic regime map, 2PL",
}
BESIDE = ("_sd", "_se", "_low", "_high")  # columns that are shown with the main figure


def write_paper(directory: Path, tables: dict[str, Rows], heading: str) -> Path:
    """Write all tables and figures below ``directory``; return the page ``paper.md``."""
    with replacing_directory(directory / "tables") as folder:
        for name, rows in tables.items():
            write_text(folder / f"{name}.csv", as_csv(rows))
            write_text(folder / f"{name}.md", as_markdown(rows))
    with replacing_directory(directory / "figures") as folder:
        drawn = draw_all(folder, tables)
    parts = [f"# {heading}\n"]
    for name, rows in tables.items():
        parts.append(f"## {TITLES[name]}\n")
        if name in drawn:
            parts.append(f"![{TITLES[name]}](figures/{name}.png)\n")
        parts.append(as_markdown(rows))
    write_text(directory / "paper.md", "\n".join(parts))
    return directory / "paper.md"


def as_csv(rows: Rows) -> str:
    """Return comma-separated values with full precision; a missing number is an empty field.

    Text that a spreadsheet would evaluate as a formula gets an apostrophe.

    >>> print(as_csv([{"name": "=cmd()", "gain": -0.5}]), end="")
    name,gain
    '=cmd(),-0.5
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, list(_columns(rows)), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _no_formula(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _no_formula(value: Any) -> Any:
    begins = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if begins else value


def as_markdown(rows: Rows) -> str:
    """Return a Markdown table with four digits; standard deviations and intervals follow their figure.

    >>> print(as_markdown([{"method": "slc", "auc": 0.69446, "auc_sd": 0.0011, "ece": None}]), end="")
    | method | auc | ece |
    |---|---|---|
    | slc | 0.6945 ± 0.0011 | – |
    """
    columns = [name for name in _columns(rows) if not name.endswith(BESIDE)]
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(_cell(name, row) for name in columns) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _columns(rows: Rows) -> dict[str, None]:
    return {name: None for row in rows for name in row}


def _cell(name: str, row: dict[str, Any]) -> str:
    text = _text(name, row.get(name))
    sd, se, low, high = (row.get(f"{name}{ending}") for ending in BESIDE)
    if sd is not None or se is not None:
        return f"{text} ± {_text(name, sd if se is None else se)}"
    return text if low is None else f"{text} [{_text(name, low)}, {_text(name, high)}]"


def _text(name: str, value: Any) -> str:
    if value is None:
        return MISSING
    if name in SETTINGS:
        return f"{value:g}"
    if isinstance(value, int) or (isinstance(value, float) and abs(value) >= 1 and value.is_integer()):
        return count(value)
    if isinstance(value, float):
        return number(value) if abs(value) < 1000 else count(value)
    return str(value).replace("|", "\\|").replace("\n", " ")


def draw_all(directory: Path, tables: dict[str, Rows]) -> list[str]:
    """Draw every figure that has a table; return their names."""
    figures: dict[str, Callable[[Rows], Any]] = {
        "over_time": draw_over_time,
        "density": draw_density,
        "calibration_fraction": partial(draw_sweep, label="share of calibration rows", other="platt"),
        "prior_variance": partial(draw_sweep, label="prior variance", other="base", log=True),
        "regime_1pl": draw_regime,
        "regime_2pl": draw_regime,
    }
    drawn = [name for name in figures if tables.get(name)]
    for name in drawn:
        with styled(name):
            save(figures[name](tables[name]), directory / name, TITLES[name])
    return drawn


def draw_over_time(rows: Rows) -> Any:
    """Draw Figure 1: the backbone and Platt on the left, the item corrections on the right, one scale."""
    figure, axes = new_figure(2.9, 2, width=7.6, sharey=True)
    x = [int(row["slice"]) for row in rows]
    panels = (
        ("AUC, backbone and Platt scaling", (("base", MUTED, "-", 4.5), ("platt", INK, (0, (2, 2)), 1.8))),
        (
            "AUC, backbone and item offsets",
            (("base", MUTED, "-", 1.8), ("rescal", CHAMPION, "-", 1.8), ("slc", ACCENT, "-", 1.8)),
        ),
    )
    for axis, (title, lines) in zip(axes, panels, strict=True):
        ends = []
        for name, colour, style, width in lines:
            y = np.array([row[f"{name}_auc"] for row in rows], dtype=float)  # None becomes NaN
            axis.plot(x, y, color=colour, linestyle=style, linewidth=width)
            ends.append((x[-1], y[-1], name, colour))
        axis.set_title(title)
        axis.set_xlabel("slice of the test rows, early to late")
        axis.set_xticks(x)
        axis.set_xlim(min(x) - 0.3, max(x) + 0.22 * len(x))
        label_ends(axis, ends, 0.09)
    return figure


def draw_density(rows: Rows) -> Any:
    """Draw Figure 2: differences of AUC, NLL and ECE by density, against the two references."""
    figure, axes = new_figure(1.2 + 0.3 * len(rows), 3, width=11.4, sharey=True)
    colours = {"platt": ACCENT, "rescal_iso": CHAMPION}
    for axis, metric in zip(axes, ("auc", "nll", "ece"), strict=True):
        shown = [
            Row(
                f"{_density_label(row)} − {row['against']}",
                _interval(row, f"delta_{metric}"),
                colours[row["against"]],
            )
            for row in rows
        ]
        forest(axis, shown, f"{metric.upper()}, slc minus the reference")
    return figure


def _density_label(row: dict[str, Any]) -> str:
    text = row.get("observations", row["slice"])  # means over pairs have no common counts
    return str(text).replace(" obs)", ")").replace("cold_start", "cold start")


def _interval(row: dict[str, Any], name: str) -> Interval:
    """Return the figure with its interval, ± its standard deviation, or without either."""
    middle, sd, low = row[name], row.get(f"{name}_sd"), row.get(f"{name}_low")
    if low is not None or middle is None or sd is None:
        return Interval(middle, low, row.get(f"{name}_high"))
    return Interval(middle, middle - sd, middle + sd)


def draw_sweep(rows: Rows, label: str, other: str, *, log: bool = False) -> Any:
    """Draw AUC and NLL of SLC and another method by the value of a sweep, with the files' backbone."""
    rows = [row for row in rows if row.get("backbone", "own") == "own"]
    figure, axes = new_figure(2.8, 2, width=6.6)
    x = [row["value"] for row in rows]
    for axis, metric in zip(axes, ("auc", "nll"), strict=True):
        axis.plot(x, [row[metric] for row in rows], "o-", color=ACCENT, markersize=4)
        axis.plot(x, [row[f"{other}_{metric}"] for row in rows], color=MUTED, linestyle=(0, (4, 2)))
        axis.set_title(f"{metric.upper()} by {label}")
        axis.set_xlabel(label + (", log scale" if log else ""))
        if log:
            axis.set_xscale("log")
        for text, column, colour in (("slc", metric, ACCENT), (other, f"{other}_{metric}", MUTED)):
            label_end(axis, x[-1], rows[-1][column], text, colour)
        axis.margins(x=0.2)
    return figure


def draw_regime(rows: Rows) -> Any:
    """Draw Figure 3: three panels by observations per item and bin, one line per drift variance Q."""
    from matplotlib import colormaps

    figure, axes = new_figure(3.0, 3, width=10.4)
    drifts = sorted({row["q"] for row in rows}, reverse=True)
    densities = sorted({row["obs_per_item_and_bin"] for row in rows})
    shades = colormaps["viridis"]
    panels = (
        ("static_gain", "(a) AUC, static − Platt"),
        ("tracking_gain", "(b) AUC, tracking − static"),
        ("offset_mse", "(c) MSE of the tracked offsets"),
    )
    for axis, (column, title) in zip(axes, panels, strict=True):
        axis.axhline(0, color=INK, linewidth=0.8)
        for position, drift in enumerate(drifts):
            line = [row for row in rows if row["q"] == drift]
            x, y = [row["obs_per_item_and_bin"] for row in line], [row[column] for row in line]
            error = [row[f"{column}_se"] or 0.0 for row in line]
            colour = shades(0.9 * position / max(len(drifts) - 1, 1))
            axis.errorbar(
                x, y, yerr=error, color=colour, marker="o", markersize=3.5, linewidth=1.6, label=f"{drift:g}"
            )
        axis.set_xscale("log")
        axis.set_xticks(densities, [str(density) for density in densities])
        axis.minorticks_off()
        axis.set_title(title)
        axis.set_xlabel("observations per item and bin")
    lines, names = axes[0].get_legend_handles_labels()
    figure.legend(lines, names, title="drift Q", loc="outside right center", frameon=False)
    return figure
