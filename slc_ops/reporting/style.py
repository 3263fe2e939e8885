"""One style for all figures and pages; the palette suits colour blindness, dark mode and print.

Figures are drawn once, in the light palette. On the page they are inline SVG with CSS variables as colours,
so they follow the reader's colour scheme and use the page's font; for MLflow the same drawing is saved as
PNG. Templates render the pages: text from logs and settings is escaped, our own drawings are not.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from slc_ops.base import text as words
from slc_ops.evidence.uncertainty import Interval

WIDTH = 4.9  # inches: one column of the page, readable on a phone
WIDE = 10.2  # both columns

# name of the CSS variable → colour in the light scheme
PALETTE = {
    "ink": "#1c2430",
    "muted": "#7b8696",
    "grid": "#e3e7ec",
    "accent": "#0b7d6b",
    "champion": "#7a52c7",
    "warn": "#c2690c",
    "bad": "#c73a3a",
    "soft": "#b9e0d8",
}
INK, MUTED, GRID, ACCENT, CHAMPION, WARN, BAD, SOFT = PALETTE.values()

_SETTINGS: dict[str, Any] = {
    "font.size": 9.5,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
    "svg.fonttype": "none",  # keep text as text: searchable, and in the page's font
}


@dataclass(frozen=True)
class Drawing:
    """A figure for the page, with title and caption for screen readers."""

    name: str
    title: str
    caption: str
    svg: str
    wide: bool = False


@contextmanager
def styled(name: str) -> Iterator[None]:
    """Apply the common style; the name salts the SVG's ids, so that they never collide."""
    from matplotlib import rc_context

    with rc_context({**_SETTINGS, "svg.hashsalt": name}):
        yield


def new_figure(height: float, columns: int = 1, width: float = WIDTH, **options: Any) -> tuple[Any, Any]:
    """Create a figure and its axes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(1, columns, **options)


def save(figure: Any, path: Path, title: str, caption: str = "") -> Drawing:
    """Write ``path`` as PNG; return the figure for the page. ``savefig`` would draw each format twice."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure.get_layout_engine().execute(figure)
    figure.set_layout_engine("none")  # the layout is computed once, not per format
    svg = svg_text(figure)
    figure.set(dpi=160, facecolor="white")
    FigureCanvasAgg(figure).print_png(f"{path}.png", metadata={"Software": None})
    return Drawing(path.name, title, caption, for_page(svg), wide=figure.get_figwidth() == WIDE)


def svg_text(figure: Any) -> str:
    """Return a figure as SVG in the light palette; the bytes are deterministic."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    text = StringIO()
    none = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    FigureCanvasSVG(figure).print_svg(text, metadata=none)
    svg = text.getvalue()
    return svg[svg.index("<svg") :]


def for_page(svg: str) -> str:
    """Replace the palette's colours by the page's CSS variables, which follow the colour scheme."""
    for variable, colour in PALETTE.items():
        svg = svg.replace(colour, f"var(--{variable})")
    return svg


def label_end(axis: Any, x: float, y: float, text: str, colour: str, **more: Any) -> None:
    """Label a line at its end, in place of a legend."""
    axis.annotate(
        text, (x, y), xytext=(5, 0), textcoords="offset points", va="center", color=colour, fontsize=9, **more
    )


def label_ends(axis: Any, ends: list[tuple[Any, float, str, str]], gap: float, bold: str = "") -> None:
    """Label the ends of lines (x, y, text, colour); labels move apart by a ``gap``, a share of the axis."""
    low, high = axis.get_ylim()
    height = float("-inf")
    for x, y, text, colour in sorted(ends, key=lambda end: end[1]):
        height = max(y, height + gap * (high - low))
        label_end(axis, x, height, text, colour, fontweight="bold" if text == bold else "normal")


def tone(found: Interval, better: int) -> str:
    """Return the colour of a difference: better, worse or unclear; ``better`` is the metric's sign."""
    if found.low is None or found.high is None:
        return MUTED
    low, high = sorted((better * found.low, better * found.high))
    return ACCENT if low > 0 else BAD if high < 0 else MUTED


def templates(loader: Any) -> Any:
    """Return a template environment: it escapes values, undefined names raise, numbers have our formats."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    formats = (words.number, words.signed, words.count, words.share, words.as_sentence)
    environment.filters.update({form.__name__: form for form in formats})
    return environment


def render(template: str, drawings: dict[str, Drawing], **values: Any) -> str:
    """Render one self-contained page."""
    from jinja2 import PackageLoader
    from markupsafe import Markup

    shown = {
        # matplotlib wrote the SVG, and has escaped its texts
        name: {**vars(each), "svg": Markup(each.svg)}  # noqa: S704 - our own drawing
        for name, each in drawings.items()
    }
    environment = templates(PackageLoader("slc_ops.reporting"))
    return str(environment.get_template(template).render(drawings=shown, **values))
