"""Options that several commands share; values are validated before a file is read."""

from collections.abc import Callable
from pathlib import Path
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


def _known_methods(_: click.Context, __: click.Parameter, text: str | None) -> Methods | None:
    """Parse ``--methods``: "all" or names separated by commas; None if the option is not given."""
    if text is None:
        return None
    if text == "all":
        return "all"
    return tuple(method_named(name.strip()).name for name in text.split(","))


def _known_effects(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, ...] | None:
    """Parse ``--effects``: blocks separated by commas; None if the option is not given."""
    if text is None:
        return None
    from slc_ops.methods.fitting.options import check_effects

    effects = tuple(name.strip() for name in text.split(","))
    check_effects(effects)
    return tuple(dict.fromkeys(effects))


def _column_map(_: click.Context, __: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    """Parse ``--map``: the contract's columns and the file's."""
    rename: dict[str, str] = {}
    for pair in pairs:
        ours, equals, theirs = pair.partition("=")
        if not (ours and equals and theirs):
            raise click.BadParameter(f"{pair!r} is not NAME=COLUMN, for example item_id=pid")
        rename[ours] = theirs
    return rename


FILE = click.Path(path_type=Path)
deployment = click.option(
    "--deployment", required=True, metavar="D", help="A name from the deployments file."
)
actor = click.option(
    "--actor", metavar="NAME", help="Who decides; recorded. Default: SLC_OPS_ACTOR, or the user's login name."
)
lake = click.option("--lake", type=FILE, help="A lake of Parquet files; instead of the deployment's source.")
params = click.option(
    "--params", required=True, metavar="DIR|MODEL", help="A parameter set, or models:/NAME@ALIAS."
)
column_map = click.option(
    "--map", "rename", multiple=True, callback=_column_map, metavar="NAME=COLUMN",
    help="Read the contract's column NAME from COLUMN; may be repeated.",
)  # fmt: skip
prior_var = click.option("--prior-var", type=float, default=1.0, help="Prior variance of the item offsets.")


def methods(default: str | None = None) -> Callable[[Any], Any]:
    """Return the option for the methods to compare; without a default those of the deployment."""
    otherwise = "." if default else " [default: the deployment's]."
    return click.option(
        "--methods", default=default, metavar="all|a,b", callback=_known_methods,
        help=f"'all' of the methods below, or names separated by commas{otherwise}",
    )  # fmt: skip


def effects(default: str) -> Callable[[Any], Any]:
    """Return the option for the effects that ``slc_mix`` may fit."""
    return click.option(
        "--effects", metavar="item,…", callback=_known_effects,
        help="Effects that slc_mix may fit: item and any of slope, group, user; user stores personal data "
        f"[default: {default}].",
    )  # fmt: skip
