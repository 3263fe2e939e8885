"""Small tables and figures for notebooks and pages, in light and dark themes."""

import html
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from slc_ops.base.files import write_text
from slc_ops.reporting.style import PALETTE, Drawing, for_page, render, styled, svg_text

LINE = "border-bottom:1px solid rgba(128,128,128,.3);white-space:nowrap"
CELL = f"padding:.15em .7em;text-align:right;{LINE}"
FIRST = f"padding:.15em .7em .15em 0;text-align:left;{LINE}"
MAX_ROWS = 40

Cells = Iterable[Sequence[str]]
Titled = tuple[str, list[str], list[list[str]]]
"""A table: title, columns and rows."""


class Shown:
    """A result that is printed as text and rendered by notebooks as HTML: its tables, then its notes."""

    def _tables(self) -> list[Titled]:
        raise NotImplementedError

    def _notes(self) -> Sequence[str]:
        return ()

    def __repr__(self) -> str:
        return "\n\n".join(
            [*(table_text(*each) for each in self._tables()), "\n".join(self._notes())]
        ).rstrip()

    def _repr_html_(self) -> str:
        *tables, last = self._tables()
        return "".join([*(table_html(*each) for each in tables), table_html(*last, self._notes())])


def table_html(title: str, columns: Sequence[str], rows: Cells, notes: Sequence[str] = ()) -> str:
    """Render a table as HTML that scrolls horizontally; all texts are escaped."""

    def line(cells: Sequence[str], tag: str) -> str:
        made = (
            f'<{tag} style="{FIRST if k == 0 else CELL}">{html.escape(str(cell))}</{tag}>'
            for k, cell in enumerate(cells)
        )
        return f"<tr>{''.join(made)}</tr>"

    body = "".join(line(row, "td") for row in list(rows)[:MAX_ROWS])
    said = "".join(f'<p style="margin:.3em 0;max-width:60em">{html.escape(note)}</p>' for note in notes)
    return (
        f'<div style="max-width:100%;overflow-x:auto"><p style="margin:.3em 0;max-width:60em">'
        f"{html.escape(title)}</p><table>{line(columns, 'th')}{body}</table>{said}</div>"
    )


def table_text(title: str, columns: Sequence[str], rows: Cells) -> str:
    """Render the same table as aligned plain text."""
    lines = [list(columns), *([str(cell) for cell in row] for row in list(rows)[:MAX_ROWS])]
    widths = [max(len(line[k]) for line in lines) for k in range(len(columns))]

    def form(line: list[str]) -> str:
        first, *others = line
        padded = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        return "  ".join([first.ljust(widths[0]), *padded]).rstrip()

    return "\n".join([title, *map(form, lines)])


def svg_of(figure: Any) -> str:
    """Render a figure as SVG in the colour of the surrounding text, for light and dark themes."""
    svg = _svg(figure).replace(PALETTE["ink"], "currentColor")
    svg = svg.replace("<svg ", '<svg style="max-width:100%;height:auto" ', 1)
    return f'<div style="max-width:100%;overflow-x:auto">{svg}</div>'


def write_page(path: Path, heading: str, tables: Sequence[Titled], notes: Sequence[str], figure: Any) -> Path:
    """Write one self-contained page in the report's style."""
    drawing = Drawing(
        name="differences",
        title="Differences from Platt",
        caption="Each method minus Platt on the same rows, with 95 % intervals.",
        svg=for_page(_svg(figure)),
        wide=True,
    )
    page = render(
        "comparison.html.j2",
        {drawing.name: drawing},
        heading=heading,
        tables=tables,
        notes=notes,
    )
    write_text(path, page, shared=True)
    return path


def _svg(figure: Any) -> str:
    with styled("page"):
        return svg_text(figure)
