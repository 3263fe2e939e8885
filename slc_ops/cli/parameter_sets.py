"""Parameter sets from a directory or a registered model (``--params``): renaming of items, exports."""

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from slc_ops.base.console import emit_json, json_option, progress, say
from slc_ops.base.errors import RegistryError
from slc_ops.cli import options

if TYPE_CHECKING:
    from slc_ops.serving.export import Exported

DIALECTS = ("duckdb", "postgres", "sqlite", "snowflake", "bigquery", "spark")
_REGISTERED = re.compile(r"models:/(?P<name>[^/@]+)(?:@(?P<alias>[^/@]+)|/(?P<version>[0-9]+))")


@click.command(name="rename-items")
@options.params
@click.option("--mapping", required=True, type=options.FILE, help="CSV with the columns old_id, new_id.")
@click.option("--out", required=True, type=options.FILE, help="Directory of the new set.")
@json_option
def rename_items(params: str, mapping: Path, out: Path) -> None:
    """Carry a parameter set's offsets over to new item ids.

    Each item of the file keeps its offset, variance and counts under its new id; all others stay. Unknown
    ids, ids in use, chains and cycles are refused.
    """
    from slc_ops.parameters.renaming import read_mapping, renamed

    names = read_mapping(mapping)
    renamed(read_set(params).parameters, names).write(out)
    emit_json({"renamed": len(names), "out": str(out)})
    say(f"{len(names)} item{'s' if len(names) > 1 else ''} renamed; the new set is in {out}")


@click.command()
@options.params
@click.option(
    "--format",
    "form",
    required=True,
    type=click.Choice(["sql", "csv", "jsonl", "redis"]),
    help="What to write.",
)
@click.option("--dialect", type=click.Choice(DIALECTS), help="SQL dialect; required with --format sql.")
@click.option("--out", type=options.FILE, help="Directory; an existing one is replaced.")
@click.option(
    "--redis",
    metavar="URL",
    help="With --format redis, instead of --out: load redis://HOST:PORT/DB directly.",
)
@click.option("--table", default="log", help="SQL: the table (or view) of rows to correct.")
@click.option("--view", default="slc_corrected", help="SQL: the view that corrects them.")
@click.option(
    "--prefix",
    help="Prefix of the names of tables, files or keys [default: slc; for SQL slc_ and the set's digest].",
)
@click.option(
    "--times", type=click.Choice(["timestamp", "number"]), default="timestamp",
    help="SQL: the type of event_time, if the set uses it.",
)  # fmt: skip
@options.column_map
@json_option
def export(
    params: str, form: str, dialect: str | None, out: Path | None, redis: str | None, table: str, view: str,
    prefix: str | None, times: str, rename: dict[str, str],
) -> None:  # fmt: skip
    """Write a parameter set for other systems.

    sql: run effects.sql, then score.sql. The view is your table with a column p_corrected; ids are compared
    as text, byte for byte, and a row without a finite logit gets NULL. Table names are unique per set, so the
    served results change only when score.sql replaces the view.

    redis: redis-cli --pipe < load.resp, or --redis, writes a hash for this version, then moves the key
    PREFIX:current to it if the hash is complete.
    """
    from slc_ops.base.addresses import without_secrets
    from slc_ops.serving.export import export as write
    from slc_ops.serving.export import load_redis
    from slc_ops.serving.export_sql import Names

    if (form == "sql") != (dialect is not None):
        raise click.UsageError(f"--dialect is for --format sql: one of {', '.join(DIALECTS)}")
    if redis is not None and form != "redis":
        raise click.UsageError("--redis requires --format redis")
    if (out is None) == (redis is None):
        raise click.UsageError(
            "name a destination: --out DIR" + (" or --redis URL" if form == "redis" else "")
        )
    with progress("exporting ..."):
        found = read_set(params)
        prefix = prefix or (f"slc_{found.digest[:8]}" if form == "sql" else "slc")
        names = Names(table, view, prefix, rename, timestamps=times == "timestamp")
        if out is not None:
            files = write(found, out, form, dialect=dialect or "", names=names)
            where = {"out": str(out), "files": files}
            done = f"written to {out}: {', '.join(files)}"
        elif redis is not None:
            load_redis(found, redis, prefix)
            where = {"redis": without_secrets(redis), "current": f"{prefix}:{found.digest[:16]}"}
            done = f"{prefix}:current is {where['current']}"
    emit_json({"method": found.parameters.method, "version": found.version, **where})
    say(f"{found.comment}; {done}")


def read_set(reference: str) -> "Exported":
    """Read and verify ``DIR``, ``models:/NAME@ALIAS`` or ``models:/NAME/VERSION``.

    The result has the set's digest and, from the registry, its version.
    """
    from slc_ops.parameters import PARAMS
    from slc_ops.parameters.parameter_set import ParameterSet
    from slc_ops.parameters.storage import read_params
    from slc_ops.serving.export import Exported

    with tempfile.TemporaryDirectory(prefix="slc-ops-") as scratch:
        directory, version = Path(reference), None
        if reference.startswith("models:/"):
            directory, version = _download(reference, Path(scratch))
        found = ParameterSet.read(directory)
        return Exported(found, read_params(directory / PARAMS)["params_digest"], version)


def _download(reference: str, directory: Path) -> tuple[Path, int]:
    from slc_ops.base.mlflow_client import connect
    from slc_ops.parameters import IN_MODEL
    from slc_ops.registry.logged_model import download
    from slc_ops.registry.tracking import typed
    from slc_ops.settings.environment import Installation

    found = _REGISTERED.fullmatch(reference)
    if found is None:
        raise RegistryError(
            f"{reference!r} names no model: expected models:/NAME@ALIAS or models:/NAME/VERSION"
        )
    installation = Installation.from_environment()
    with typed(installation.tracking_uri):
        client = connect(installation.tracking_uri, registry_uri=installation.registry_uri)
        version = found["version"] or client.get_model_version_by_alias(found["name"], found["alias"]).version
        source = client.get_model_version_download_uri(found["name"], version)
        return download(client, source, IN_MODEL, directory), int(version)
