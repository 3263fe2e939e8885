"""``slc-ops export``: write a parameter set for other systems."""

from pathlib import Path

import click

from slc_ops.base.console import emit_json, json_option, progress, say
from slc_ops.cli.ladder import map_option

DIALECTS = ("duckdb", "postgres", "sqlite", "snowflake", "bigquery", "spark")


@click.command()
@click.option("--params", required=True, metavar="DIR|MODEL", help="A parameter set, or models:/NAME@ALIAS.")
@click.option(
    "--format",
    "form",
    required=True,
    type=click.Choice(["sql", "csv", "jsonl", "redis"]),
    help="What to write.",
)
@click.option("--dialect", type=click.Choice(DIALECTS), help="SQL dialect; required with --format sql.")
@click.option("--out", type=click.Path(path_type=Path), help="Directory; an existing one is replaced.")
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
@map_option
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
    from slc_ops.cli.parameter_sets import to_export
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
        found = to_export(params)
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
