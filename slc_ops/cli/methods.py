"""Methods on the command line: names are validated before a file is read, and help lists them all."""

from collections.abc import Callable
from typing import Any, Literal

import click

from slc_ops.base.methods import METHODS, method_named

Methods = tuple[str, ...] | Literal["all"]


class CommandOfMethods(click.Command):
    """A command whose help ends with the table of methods."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        with formatter.section("Methods"):
            formatter.write_dl([(method.name, method.description) for method in METHODS.values()])


def known_method(_: click.Context, __: click.Parameter, name: str) -> str:
    """Validate the value of ``--method``."""
    return method_named(name).name


def known_methods(_: click.Context, __: click.Parameter, text: str | None) -> Methods | None:
    """Parse ``--methods``: "all" or names separated by commas; None if the option is not given."""
    if text is None:
        return None
    if text == "all":
        return "all"
    return tuple(method_named(name.strip()).name for name in text.split(","))


def known_effects(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, ...] | None:
    """Parse ``--effects``: blocks separated by commas; None if the option is not given."""
    if text is None:
        return None
    from slc_ops.methods.fitting.options import check_effects

    effects = tuple(name.strip() for name in text.split(","))
    check_effects(effects)
    return tuple(dict.fromkeys(effects))


def effects_option(default: str) -> Callable[[Any], Any]:
    """Return the option for the effects that ``slc_mix`` may fit."""
    return click.option(
        "--effects", metavar="item,…", callback=known_effects,
        help="Effects that slc_mix may fit: item and any of slope, group, user; user stores personal data "
        f"[default: {default}].",
    )  # fmt: skip
