"""Write a simulated production log as a Hive-partitioned Parquet lake, together with its truth."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from slc_ops.base.errors import SettingsError
from slc_ops.base.files import read_json, replacing, write_json
from slc_ops.base.window import WEEK, Window, parse_timestamp
from slc_ops.intake.population import Platform, catalogue, week_of_rows

MANIFEST = "manifest.json"


def simulate(out: Path, *, weeks: int = 12, start: str = "2026-01-05", **platform: Any) -> dict[str, Any]:
    """Write ``weeks`` weeks of logs from the Monday ``start`` on; answer what was written.

    Keyword arguments are the fields of :class:`~slc_ops.intake.population.Platform`. The same arguments give
    the same bytes; asking for more weeks of the same platform adds the missing ones; a directory that holds
    anything else is refused.

    Files: ``week=YYYY-MM-DD/part-0.parquet``, ``truth.parquet`` (per item: difficulty, bias, drift) and
    ``manifest.json``, written last.
    """
    settings = Platform(**platform)
    if weeks < 1:
        raise SettingsError(f"simulate needs at least 1 week, not {weeks}")
    first = monday(start)
    manifest: dict[str, Any] = {
        "platform": settings.as_dict(),
        "start": first.isoformat(),
        "weeks": weeks,
        "rows": weeks * settings.rows_per_week,
        "items": settings.items + (weeks - 1) * settings.new_items,
        "last_window": str(Window(first + (weeks - 1) * WEEK, first + weeks * WEEK)),
    }
    written = already_there(out, manifest)
    if written >= weeks:
        found: dict[str, Any] = read_json(out / MANIFEST)
        return found
    for week in range(written, weeks):
        week_start = first + week * WEEK
        start_us = (week_start - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        with replacing(out / f"week={week_start:%Y-%m-%d}" / "part-0.parquet") as temporary:
            pq.write_table(week_of_rows(settings, week, start_us), temporary, compression="zstd")
    # The truth lies beside the weeks without being one: a Hive lake's rows are in its partitions.
    with replacing(out / "truth.parquet") as temporary:
        pq.write_table(catalogue(settings, weeks - 1).table(), temporary, compression="zstd")
    write_json(out / MANIFEST, manifest)
    return manifest


def monday(start: str) -> datetime:
    """The first window's start, which must be a Monday at midnight UTC."""
    timestamp = parse_timestamp(start)
    if Window.week_of(timestamp).start != timestamp:
        raise SettingsError(
            f"simulate starts on a Monday at 00:00 UTC, {start!r} is a {timestamp:%A} at {timestamp:%H:%M}"
        )
    return timestamp


def already_there(out: Path, wanted: dict[str, Any]) -> int:
    """How many weeks of the wanted platform ``out`` holds; anything else in it is an error."""
    if not out.exists():
        return 0
    if not out.is_dir():
        raise SettingsError(f"{out} is a file; simulate writes a directory")
    if not (out / MANIFEST).exists():
        foreign = [path.name for path in out.iterdir() if not path.name.startswith(("week=", "truth", "."))]
        if foreign:
            raise SettingsError(
                f"{out} holds other files ({foreign[0]}, ...); simulate into an empty directory"
            )
        return 0
    found = read_json(out / MANIFEST)
    if any(found.get(key) != wanted[key] for key in ("platform", "start")):
        raise SettingsError(
            f"{out} holds another simulation; remove it or choose another directory, nothing was overwritten"
        )
    return int(found["weeks"])
