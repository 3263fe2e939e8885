"""Split one public data set into history, calibration and test for ``slc-ops compare``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slc_ops.base.errors import InputError, SettingsError
from slc_ops.base.files import replacing, write_json
from slc_ops.base.tabular import TabularFile
from slc_ops.paper.datasets import READERS
from slc_ops.paper.datasets.backbone import backbone_logits
from slc_ops.paper.datasets.split import PARTS, ordered, part_of

COLUMNS = ("event_id", "event_time", "user_id", "item_id", "label", "logit", "group_id", "backbone_version")
REPORT = "ingest.json"
CLIP = 1e-6


def ingest(
    dataset: str,
    files: Sequence[Path],
    out: Path,
    *,
    logits: Path | None = None,
    time: Literal["index", "clock"] = "index",
    min_rows: int = 5,
) -> dict[str, Any]:
    """Write ``history``, ``calibration`` and ``test`` as Parquet, and ``ingest.json``; return the latter.

    The split is strict per student: the first 60 % of a student's interactions, the next 20 %, the last 20 %.
    ``event_time`` is the student's cumulative interaction index or, with ``time="clock"``, the timestamp (as
    published, read as UTC). Logits come from ``logits``, a file with ``event_id`` and ``logit`` or
    ``probability``, or from the built-in backbone, trained on the history.
    """
    if dataset not in READERS:
        raise SettingsError(f"no data set {dataset!r}; there are: {', '.join(READERS)}")
    absent = [path for path in files if not path.exists()]
    if absent or not files:
        raise InputError(f"there is no {absent[0]}" if absent else f"name the file of {dataset}")
    refuse_foreign(out)
    published = READERS[dataset](files)
    if time == "clock" and not published.has_time:
        raise SettingsError(f"{dataset} has an order but no times; use --time index")
    rows = ordered(published, min_rows)
    if not rows.num_rows:
        raise InputError(f"no student of {dataset} has {min_rows} usable rows: {published.counts}")
    part = part_of(rows)
    report: dict[str, Any] = {"dataset": dataset, "left_out": published.counts}
    if logits is None:
        rows = rows.append_column("logit", pa.array(backbone_logits(rows, part == 0)))
        version = "skill-counts"
    else:
        rows, report["logits"] = join_logits(rows, logits)
        version = logits.stem
    rows = rows.append_column("backbone_version", pa.repeat(version, rows.num_rows))
    if time == "clock":
        times = pc.cast(pc.cast(rows["clock"], pa.timestamp("us")), pa.timestamp("us", "UTC"))
        rows = rows.set_column(rows.schema.get_field_index("event_time"), "event_time", times)
    report |= write_parts(rows, part, out)
    write_json(out / REPORT, report)
    return report


def write_parts(rows: pa.Table, part: np.ndarray, out: Path) -> dict[str, Any]:
    """Write the three files; return their statistics. Rows without a logit are omitted."""
    usable = rows["logit"].is_valid().to_numpy()
    summary: dict[str, Any] = {}
    for number, name in enumerate(PARTS):
        chosen = rows.filter(pa.array((part == number) & usable)).select(COLUMNS)
        if not chosen.num_rows:
            raise InputError(f"no row is left for {name}; the data set or the logits cover too little")
        with replacing(out / f"{name}.parquet") as temporary:
            pq.write_table(chosen, temporary, compression="zstd")
        summary[name] = {
            "rows": chosen.num_rows,
            "students": len(chosen["user_id"].unique()),
            "items": len(chosen["item_id"].unique()),
            "label_rate": pc.mean(chosen["label"]).as_py(),
        }
    return summary


def refuse_foreign(out: Path) -> None:
    """Raise `SettingsError` unless the directory is empty or holds an earlier result."""
    if out.exists() and not out.is_dir():
        raise SettingsError(f"{out} is a file; ingest writes a directory")
    known = {REPORT, *(f"{name}.parquet" for name in PARTS)}
    foreign = [path.name for path in out.iterdir() if path.name not in known] if out.exists() else []
    if foreign:
        raise SettingsError(f"{out} holds other files ({foreign[0]}, ...); ingest into an empty directory")


def join_logits(rows: pa.Table, path: Path) -> tuple[pa.Table, dict[str, Any]]:
    """Join the logits of the user's own model by event id, null if the file has none; report the gaps."""
    found = read_table(path)
    if "event_id" not in found.schema.names or not {"logit", "probability"} & set(found.schema.names):
        raise InputError(
            f"{path} needs the columns event_id and logit (or probability); "
            f"it has: {', '.join(found.schema.names)}"
        )
    ids = pc.cast(found["event_id"], pa.string())
    if len(ids.unique()) < len(ids):
        raise InputError(
            f"{path} has {len(ids) - len(ids.unique())} event ids more than once; each needs one logit"
        )
    place = pc.index_in(rows["event_id"], value_set=ids)
    logit = logits_of(found, path).take(place)
    gaps = logit.null_count
    if gaps == rows.num_rows:
        raise InputError(
            f"{path} has a logit for none of the {rows.num_rows} events; its ids look like {ids[0]}, "
            f"the data set's like {rows['event_id'][0]}"
        )
    used = rows.num_rows - gaps
    return rows.append_column("logit", logit), {
        "events": rows.num_rows,
        "without": gaps,
        "unused": len(ids) - used,
    }


def read_table(path: Path) -> pa.Table:
    """Read Parquet, CSV or Feather, according to the suffix."""
    try:
        return TabularFile(path, types={"event_id": pa.string()}).table()
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{path} cannot be read: {' '.join(str(error).split())}") from None


def logits_of(found: pa.Table, path: Path) -> pa.ChunkedArray:
    """Return finite logits; probabilities are clipped to [1e-6, 1 - 1e-6] first."""
    name = "logit" if "logit" in found.schema.names else "probability"
    try:
        values = pc.cast(found[name], pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InputError(f"{path}: column {name} is {found[name].type}, expected numbers") from None
    if not pc.all(pc.is_finite(values)).as_py():
        raise InputError(f"{path}: column {name} has values that are not finite")
    if name == "logit":
        return values
    if pc.any(pc.or_(pc.less(values, 0.0), pc.greater(values, 1.0))).as_py():
        raise InputError(
            f"{path}: column probability has values outside of [0, 1]; is it a column of logits?"
        )
    p = pc.min_element_wise(pc.max_element_wise(values, CLIP), 1 - CLIP)
    return pc.ln(pc.divide(p, pc.subtract(1.0, p)))
