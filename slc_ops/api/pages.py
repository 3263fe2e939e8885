"""What a notebook shows: small tables and figures as HTML that follows the notebook's colours."""

import html
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Any

from slc_ops.reporting.style import PALETTE

CELL = "padding:.15em .7em;text-align:right;border-bottom:1px solid rgba(128,128,128,.3)"
FIRST = "padding:.15em .7em .15em 0;text-align:left;border-bottom:1px solid rgba(128,128,128,.3)"


def table_html(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], notes: Sequence[str] = ()
) -> str:
    """A table that fits a screen: it scrolls where it has to, and all texts are escaped."""

    def line(cells: Sequence[str], tag: str) -> str:
        made = (
            f'<{tag} style="{FIRST if k == 0 else CELL}">{html.escape(str(cell))}</{tag}>'
            for k, cell in enumerate(cells)
        )
        return f"<tr>{''.join(made)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    said = "".join(f'<p style="margin:.3em 0;max-width:60em">{html.escape(note)}</p>' for note in notes)
    return (
        f'<div style="max-width:100%;overflow-x:auto"><p style="margin:.3em 0;max-width:60em">'
        f"{html.escape(title)}</p><table>{line(columns, 'th')}{body}</table>{said}</div>"
    )


def svg_of(figure: Any) -> str:
    """A figure as SVG whose ink is the text's own colour, so that it can be read on light and on dark."""
    text = StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :].replace(PALETTE["ink"], "currentColor")
    return f'<div style="max-width:100%;overflow-x:auto">{svg}</div>'
