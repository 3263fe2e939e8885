"""The paper's analyses as files: a CSV and a Markdown table each, figures, and a page that collects them."""

import csv
import io
from pathlib import Path
from typing import Any

from slc_ops.base.files import replacing_directory, write_text
from slc_ops.reporting.style import ACCENT, CHAMPION, INK, MUTED, label_end, new_figure, save, styled

Rows = list[dict[str, Any]]

TITLES = {
    "ladder": "The ladder",
    "density": "Gain of SLC by observations per item",
    "calibration_fraction": "Calibration-fraction sweep",
    "prior_variance": "Prior-variance sweep",
    "link": "Link ablation",
    "ridge": "Converged ridge against one step",
    "detectability": "Detectability of drift",
    "regime_1pl": "Regime map, 1PL",
    "regime_2pl": "Regime map, 2PL",
}

SETTINGS = ("value", "q", "alpha", "reference_drift")  # what was chosen, not measured: as it was written


def write_paper(directory: Path, tables: dict[str, Rows]) -> Path:
    """Write all tables and figures; return the page ``paper.md``."""
    with replacing_directory(directory / "tables") as folder:
        for name, rows in tables.items():
            write_text(folder / f"{name}.csv", as_csv(rows))
            write_text(folder / f"{name}.md", as_markdown(rows))
    with replacing_directory(directory / "figures") as folder:
        drawn = draw_all(folder, tables)
    parts = ["# The paper's analyses on this pair of files\n"]
    for name, rows in tables.items():
        parts.append(f"## {TITLES[name]}\n")
        if name in drawn:
            parts.append(f"![{TITLES[name]}](figures/{name}.png)\n")
        parts.append(as_markdown(rows))
    write_text(directory / "paper.md", "\n".join(parts))
    return directory / "paper.md"


def as_csv(rows: Rows) -> str:
    """Comma-separated values with full precision; a missing number is an empty field."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(_columns(rows)), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_markdown(rows: Rows) -> str:
    """A table for reading, four digits.

    >>> print(as_markdown([{"method": "slc", "auc": 0.69446, "ece": None}]), end="")
    | method | auc | ece |
    |---|---|---|
    | slc | 0.6945 | – |
    """
    columns = list(_columns(rows))
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(_text(name, row.get(name)) for name in columns) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _columns(rows: Rows) -> dict[str, None]:
    return {name: None for row in rows for name in row}


def _text(name: str, value: Any) -> str:
    if value is None:
        return "–"
    if name in SETTINGS:
        return f"{value:g}"
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) < 1000 else f"{value:,.0f}"
    return str(value).replace("|", "\\|").replace("\n", " ")


def draw_all(directory: Path, tables: dict[str, Rows]) -> set[str]:
    """Every figure there is a table for."""
    drawn = set()
    for name, draw in (("density", draw_density), ("calibration_fraction", draw_fraction),
                       ("prior_variance", draw_variance), ("regime_1pl", draw_regime),
                       ("regime_2pl", draw_regime)):  # fmt: skip
        if tables.get(name):
            with styled(name):
                save(draw(tables[name]), name, directory)
            drawn.add(name)
    return drawn


def draw_density(rows: Rows) -> Any:
    """ΔAUC of SLC by density, against the two references."""
    figure, axis = new_figure(3.0, width=6.0)
    names = list(dict.fromkeys(row["slice"] for row in rows))
    axis.axhline(0, color=INK, linewidth=0.9)
    for shift, (reference, colour) in enumerate((("platt", ACCENT), ("rescal_iso", CHAMPION))):
        for row in rows:
            if row["against"] != reference or row["delta_auc"] is None:
                continue
            x = names.index(row["slice"]) + 0.24 * shift - 0.12
            if row["delta_auc_low"] is not None:
                axis.plot([x, x], [row["delta_auc_low"], row["delta_auc_high"]], color=colour, linewidth=2.4)
            axis.plot(x, row["delta_auc"], "o", color=colour)
        axis.annotate(
            f"against {reference}",
            (0.98, 0.93 - 0.08 * shift),
            xycoords="axes fraction",
            ha="right",
            color=colour,
        )
    axis.set_xticks(range(len(names)), [name.replace(" (", "\n(") for name in names])
    axis.set_ylabel("Δ AUC of slc")
    return figure


def draw_fraction(rows: Rows) -> Any:
    """AUC and NLL of SLC and Platt by the share of calibration rows."""
    return _two_lines(rows, "share of the calibration rows", "slc", "platt", log=False)


def draw_variance(rows: Rows) -> Any:
    """AUC and NLL by prior variance, with the files' backbone."""
    own = [row for row in rows if row["backbone"] == "own"]
    return _two_lines(own, "prior variance (log scale)", "slc", "base", log=True)


def _two_lines(rows: Rows, label: str, name: str, other: str, *, log: bool) -> Any:
    figure, axes = new_figure(2.8, 2, width=6.6)
    x = [row["value"] for row in rows]
    for axis, metric in zip(axes, ("auc", "nll"), strict=True):
        axis.plot(x, [row[metric] for row in rows], "o-", color=ACCENT, markersize=4)
        axis.plot(x, [row[f"{other}_{metric}"] for row in rows], color=MUTED, linestyle=(0, (4, 2)))
        axis.set_title(metric.upper())
        axis.set_xlabel(label)
        if log:
            axis.set_xscale("log")
        for text, column, colour in ((name, metric, ACCENT), (other, f"{other}_{metric}", MUTED)):
            label_end(axis, x[-1], rows[-1][column], text, colour)
        axis.margins(x=0.16)
    return figure


def draw_regime(rows: Rows) -> Any:
    """Three panels by observations per item, one line per drift variance Q."""
    from matplotlib.colors import LinearSegmentedColormap

    figure, axes = new_figure(3.0, 3, width=9.6)
    drifts = sorted({row["q"] for row in rows})
    shades = LinearSegmentedColormap.from_list("drift", [MUTED, ACCENT])
    panels = (
        ("static_gain", "(a) Δ AUC, static correction"),
        ("tracking_gain", "(b) Δ AUC, tracking on top"),
        ("offset_mse", "(c) MSE of the offsets"),
    )
    for axis, (column, title) in zip(axes, panels, strict=True):
        ends: list[tuple[float, str, Any]] = []
        for place, drift in enumerate(drifts):
            line = sorted((row for row in rows if row["q"] == drift), key=lambda row: row["obs_per_item_and_bin"])
            colour = shades(place / max(len(drifts) - 1, 1))
            x, y = [row["obs_per_item_and_bin"] for row in line], [row[column] for row in line]
            error = [row[f"{column}_se"] or 0.0 for row in line]
            axis.errorbar(x, y, yerr=error, color=colour, marker="o", markersize=3.5, linewidth=1.6)
            ends.append((y[-1], f"Q = {drift:g}", colour))
        axis.set_xscale("log")
        axis.set_xlim(min(row["obs_per_item_and_bin"] for row in rows) * 0.8, 900)
        densities = sorted({row["obs_per_item_and_bin"] for row in rows})
        axis.set_xticks(densities, [str(density) for density in densities])
        axis.minorticks_off()
        axis.set_title(title)
        axis.set_xlabel("observations per item and bin")
        axis.axhline(0, color=INK, linewidth=0.8)
        _label_ends(axis, max(densities), ends)
    return figure


def _label_ends(axis: Any, x: float, ends: list[tuple[float, str, Any]]) -> None:
    """Names where lines end, moved apart where they would cover each other."""
    low, high = axis.get_ylim()
    gap = 0.06 * (high - low)
    place = -float("inf")
    for y, text, colour in sorted(ends, key=lambda end: end[0]):
        place = max(y, place + gap)
        label_end(axis, x, place, text, colour)
