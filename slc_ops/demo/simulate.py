"""Write a simulated production log as a Hive-partitioned Parquet lake, with the true parameters."""

from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slc_ops.base.errors import SettingsError
from slc_ops.base.files import read_json, replacing, write_json
from slc_ops.base.window import WEEK, Window
from slc_ops.demo.population import Platform, catalogue, monday, truth, week_of_rows
from slc_ops.settings.window import duration

MANIFEST = "manifest.json"


def simulate(
    out: Path,
    *,
    weeks: int = 12,
    start: str = "2026-01-05",
    label_delay: str | None = None,
    **platform: Any,
) -> dict[str, Any]:
    """Write ``weeks`` weeks of logs from the Monday ``start`` on; return the manifest.

    Keyword arguments are the fields of :class:`~slc_ops.demo.population.Platform`. The same arguments give
    the same bytes; a greater number of weeks adds the missing ones; a directory with other content is
    refused.

    With ``label_delay`` (for example ``3d``) the rows are in ``predictions/`` without labels, and the labels
    in ``labels/`` with their arrival time, at most ``label_delay`` after the row. The rows are the same.

    Files: ``week=YYYY-MM-DD/part-0.parquet``, ``truth.parquet`` (per item: difficulty, bias, drift) and
    ``manifest.json``, written last.
    """
    settings = Platform(**platform)
    if weeks < 1:
        raise SettingsError(f"simulate needs at least 1 week, not {weeks}")
    first = monday(start)
    manifest: dict[str, Any] = {
        "platform": asdict(settings),
        "start": first.isoformat(),
        "weeks": weeks,
        "rows": weeks * settings.rows_per_week,
        "items": settings.items + (weeks - 1) * settings.new_items,
        "last_window": str(Window(first + (weeks - 1) * WEEK, first + weeks * WEEK)),
    }
    try:
        delay = None if label_delay is None else duration(label_delay)
    except ValueError as error:
        raise SettingsError(f"label delay: {error}") from None
    if delay is not None:
        manifest["label_delay"] = label_delay
    found = already_there(out, manifest)
    if found.get("weeks", 0) >= weeks:
        return found
    for week in range(found.get("weeks", 0), weeks):
        week_start = first + week * WEEK
        rows = week_of_rows(settings, week, week_start)
        if delay is not None:
            write_labels(out / "labels", rows, week, delay, settings.seed)
            rows = rows.drop_columns("label")
        lake = out if delay is None else out / "predictions"
        with replacing(lake / f"week={week_start:%Y-%m-%d}" / "part-0.parquet") as temporary:
            pq.write_table(rows, temporary, compression="zstd")
    # The truth is stored beside the weeks; readers of a Hive lake read only its partitions.
    with replacing(out / "truth.parquet") as temporary:
        pq.write_table(truth(catalogue(settings, weeks - 1)), temporary, compression="zstd")
    write_json(out / MANIFEST, manifest)
    return manifest


def write_labels(lake: Path, rows: pa.Table, week: int, delay: timedelta, seed: int) -> None:
    """Write the labels of a week's rows, one file per week of their arrival."""
    wait = np.random.default_rng([seed, 3, week]).random(rows.num_rows) * (delay / timedelta(microseconds=1))
    known = pc.add(rows["event_time"], pa.array(wait.astype(np.int64), pa.duration("us")))
    labels = pa.table({"event_id": rows["event_id"], "event_time": known, "label": rows["label"]})
    mondays = pc.floor_temporal(known, unit="week")
    for first in mondays.unique():
        with replacing(lake / f"week={first.as_py():%Y-%m-%d}" / f"part-{week}.parquet") as temporary:
            part = labels.filter(pc.equal(mondays, first)).sort_by("event_time")
            pq.write_table(part, temporary, compression="zstd")


def already_there(out: Path, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest of the wanted platform in ``out``, or {}; raise for other content."""
    if not out.exists():
        return {}
    if not out.is_dir():
        raise SettingsError(f"{out} is a file; simulate writes a directory")
    if not (out / MANIFEST).exists():
        foreign = [
            path.name
            for path in out.iterdir()
            if not path.name.startswith(("week=", "truth", ".", "predictions", "labels"))
        ]
        if foreign:
            raise SettingsError(
                f"{out} holds other files ({foreign[0]}, ...); simulate into an empty directory"
            )
        return {}
    found: dict[str, Any] = read_json(out / MANIFEST)
    if any(found.get(key) != wanted.get(key) for key in ("platform", "start", "label_delay")):
        raise SettingsError(
            f"{out} holds another simulation; remove it or choose another directory, nothing was overwritten"
        )
    return found
