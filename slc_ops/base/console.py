"""What every command prints: a table for people, JSON for machines, progress on a terminal."""

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import click

from slc_ops.base.files import write_text

json_option = click.option(
    "--json", "json_path", metavar="FILE", help="Write the result as JSON to FILE; '-' is the terminal."
)


def emit_json(json_path: str | None, value: Any) -> None:
    """Write ``value`` where ``--json`` says; nothing without it. NaN is refused, never written."""
    if json_path is None:
        return
    import json

    text = json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False)
    if json_path == "-":
        click.echo(text)
    else:
        write_text(Path(json_path), text + "\n", shared=True)


def print_table(
    json_path: str | None,
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    whole: Collection[str] = (),
) -> None:
    """A rich table, unless JSON goes to the terminal. The first column is text, the others are figures.

    On a narrow terminal a cell goes on in the next line, it is never cut off; columns in ``whole`` (dates)
    are not even broken.
    """
    if json_path == "-":
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", header_style="bold")
    for position, column in enumerate(columns):
        justify: Literal["left", "right"] = "left" if position == 0 else "right"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=column in whole)
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def print_records(json_path: str | None, title: str, records: Iterable[tuple[str, Sequence[str]]]) -> None:
    """Entries too wide for a table, unless JSON goes to the terminal: a line, and indented lines about it."""
    if json_path == "-":
        return
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console(highlight=False)
    console.print(Text(title, style="italic"))
    for line, details in records:
        console.print(Text(line, style="bold"), overflow="fold")
        for detail in details:
            console.print(Padding(Text(detail), (0, 0, 0, 4)), overflow="fold")


def print_lines(lines: Iterable[str], indent: str = "  ") -> None:
    """Sentences for people, wrapped between words to the terminal; what goes on is indented."""
    import textwrap

    from rich.console import Console

    form = textwrap.TextWrapper(
        Console().width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    for line in lines:
        click.echo(form.fill(line))


def say(json_path: str | None, text: str) -> None:
    """A line for people, unless JSON goes to the terminal."""
    if json_path != "-":
        click.echo(text)


@contextmanager
def progress(text: str) -> Iterator[None]:
    """A spinner on stderr while the block runs; silent when stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield
