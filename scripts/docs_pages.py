"""Parts of the site that come from the code: the figures of the concepts page and the rules in force."""

import re
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure  # noqa: TID253 - a script that draws

from slc_ops.evidence.detectability import smallest_visible_drift
from slc_ops.reporting.style import ACCENT, INK, MUTED, PALETTE, SOFT, WARN, label_end, styled

DOCS = Path(__file__).parents[1] / "docs"
BEGIN, END = "<!-- begin rules (written by make docs-tables) -->", "<!-- end rules -->"
DARK = {
    "ink": "#e8edf3", "muted": "#9aa6b5", "grid": "#2b3440", "accent": "#3ed1b8", "champion": "#b79bf5",
    "warn": "#f0a04b", "bad": "#f47c7c", "soft": "#1f4a44",
}  # fmt: skip


def ranking(figure: Figure) -> None:
    """Two problems before and after an offset each."""
    rng = np.random.default_rng(3)
    score = np.sort(rng.normal(0, 0.9, 14))
    bias = np.where(np.arange(14) % 2 == 0, -1.1, 1.1)
    left, right = figure.subplots(1, 2, sharey=True)
    for axis, x, title in (
        (left, score, "the score alone"),
        (right, score + bias, "with an offset per problem"),
    ):
        for sign, colour, marker, name in ((-1, WARN, "s", "harder"), (1, ACCENT, "o", "easier")):
            mine = np.sign(bias) == sign
            chance = 1 / (1 + np.exp(-(score + bias)))
            axis.plot(
                x[mine], chance[mine], marker, color=colour, markersize=6, label=f"problem that is {name}"
            )
        axis.set_title(title)
        axis.set_xlabel("logit that ranks the rows")
    left.set_ylabel("true probability of a right answer")
    left.legend(frameon=False, fontsize=8.5, loc="upper left")


def shrinkage(figure: Figure) -> None:
    """λ by rows for three prior variances."""
    axis = figure.subplots()
    rows = np.geomspace(1, 2000, 200)
    for variance, colour in ((0.05, WARN), (0.25, MUTED), (1.0, ACCENT)):
        remaining = rows * 0.21 / (1 / variance + rows * 0.21)
        axis.plot(rows, remaining, color=colour)
        half = float(np.interp(0.5, remaining, rows))  # where the curves are furthest apart
        label_end(axis, half, 0.5, f"σ² = {variance:g}", colour)
    axis.set_xscale("log")
    axis.set_xlim(1, 2000)
    axis.set_ylim(0, 1.05)
    axis.set_xlabel("rows of the item, log scale (p(1 − p) = 0.21 each)")
    axis.set_ylabel("share left after shrinkage, λ")
    axis.set_title("Items with few rows hardly move")


def detectability(figure: Figure) -> None:
    """The smallest visible step by rows per bin."""
    axis = figure.subplots()
    rows = np.geomspace(2, 20000, 200)
    least = np.array([smallest_visible_drift(each) for each in rows])
    axis.fill_between(rows, 0.01, least, color=SOFT, linewidth=0)
    axis.plot(rows, least, color=ACCENT)
    axis.axhline(0.05, color=INK, linewidth=0.9)
    axis.annotate("a moderate drift, 0.05 logit per bin", (2.4, 0.055), color=INK, fontsize=9)
    axis.annotate("follows noise", (6, 0.3), color=INK, fontsize=9)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_ylim(0.01, 5)
    axis.set_xlabel("rows per item and time bin, log scale")
    axis.set_ylabel("smallest visible step, logit")
    axis.set_title("Below the line a step is indistinguishable from chance (5 % level)")


def draw(name: str, content: Callable[[Figure], None]) -> None:
    """Draw once, write in both schemes."""
    with styled(name):
        figure: Any = Figure(figsize=(7.2, 3.1), layout="constrained")
        content(figure)
        text = StringIO()
        figure.savefig(
            text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
        )
    light = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font: \1 system-ui, sans-serif", text.getvalue())
    dark = light
    for variable, colour in PALETTE.items():
        dark = dark.replace(colour, DARK[variable])
    for scheme, svg in (("light", light), ("dark", dark)):
        (DOCS / "images" / f"concept-{name}-{scheme}.svg").write_text(svg)


def rules(page: str) -> str:
    """The page with a line per decision record that was not superseded."""
    lines = []
    for path in sorted((DOCS / "decisions").glob("*.md")):
        title, _, status, *_ = path.read_text(encoding="utf-8").splitlines()
        number, _, rule = title.removeprefix("# ").partition(" ")
        if not status.startswith("**Status:** superseded"):
            lines.append(f"- {rule} ([{number}](decisions/{path.name})).")
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n" + "\n".join(lines) + f"\n\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    for each in (ranking, shrinkage, detectability):
        draw(each.__name__, each)
    page = DOCS / "architecture.md"
    page.write_text(rules(page.read_text(encoding="utf-8")), encoding="utf-8")
