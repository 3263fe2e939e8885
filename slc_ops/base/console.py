"""Output of the commands: tables for people, JSON for machines, progress on a terminal."""

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import click

from slc_ops.base.addresses import without_secrets
from slc_ops.base.errors import SlcError
from slc_ops.base.extras import missing_extra
from slc_ops.base.files import storage_refusal, write_text
from slc_ops.base.memory import is_out_of_memory

_JSON = "slc_ops.json"


def _keep(context: click.Context, _: click.Parameter, path: str | None) -> None:
    context.meta[_JSON] = path


json_option = click.option(
    "--json", "json_path", metavar="FILE", expose_value=False, callback=_keep,
    help="Write the result as JSON to FILE; '-' is the terminal.",
)  # fmt: skip
"""The option ``--json`` of a command; the functions below find its value."""


def json_path() -> str | None:
    """Return the file of ``--json``; None without the option, and outside commands."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(_JSON)


def is_quiet() -> bool:
    """Return True if JSON goes to the terminal, where nothing else may go."""
    return json_path() == "-"


def emit_json(value: Any) -> None:
    """Write ``value`` to the file of ``--json``, or do nothing without it. NaN raises ``ValueError``."""
    path = json_path()
    if path is None:
        return
    import json

    text = json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False)
    if path == "-":
        click.echo(text)
    else:
        write_text(Path(path), text + "\n", shared=True)


def print_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], whole: Collection[str] = ()
) -> None:
    """Print a rich table, unless JSON goes to the terminal. The first column is text, the others are figures.

    On a narrow terminal a cell wraps, it is never cut off; columns in ``whole`` (dates) do not wrap.
    """
    if is_quiet():
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


def print_lines(lines: Iterable[str], indent: str = "  ", *, fold: bool = False) -> None:
    """Print sentences, wrapped between words to the terminal's width; continuation lines are indented.

    ``fold`` also breaks words that are too long for a line.
    """
    if is_quiet():
        return
    import textwrap

    from rich.console import Console

    form = textwrap.TextWrapper(
        Console().width, subsequent_indent=indent, break_long_words=fold, break_on_hyphens=False
    )
    for line in lines:
        click.echo(form.fill(line))


def say(text: str) -> None:
    """Print a line, unless JSON goes to the terminal."""
    if not is_quiet():
        click.echo(text)


@contextmanager
def progress(text: str) -> Iterator[None]:
    """Show a spinner on stderr while the block runs; silent when stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield


def run_app(app: click.Group) -> None:
    """Run a command of an application; convert expected errors to one line and exit code 2."""
    try:
        _run(app)
    except KeyboardInterrupt:  # after click, for example while an error is printed
        sys.exit(130)


def _run(app: click.Group) -> None:
    try:
        code = app.main(standalone_mode=False)
    except click.Abort:
        click.echo("slc-ops: interrupted", err=True)
        sys.exit(130)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(2)
    except BrokenPipeError:
        sys.exit(0)
    except Exception as error:
        reason = _reason(error)
        if reason is None:
            raise
        click.echo(f"slc-ops: {_one_line(reason)}", err=True)
        sys.exit(2)
    sys.exit(code if isinstance(code, int) else 0)


def _reason(error: Exception) -> str | None:
    """Return the message of an expected error; None for a bug."""
    if isinstance(error, click.ClickException):
        context = error.ctx if isinstance(error, click.UsageError) else None
        return error.format_message() + (f" (see '{context.command_path} --help')" if context else "")
    if isinstance(error, SlcError):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and (missing := missing_extra(error)) is not None:
        return str(missing)
    if isinstance(error, OSError) and (refusal := storage_refusal(error)) is not None:
        return f"{refusal}; free space or grant access, then try again"
    if is_out_of_memory(error):
        return "there is not enough memory; provide more, or use fewer rows at once"
    return None


def _one_line(text: str) -> str:
    return without_secrets(" ".join(text.split()))
