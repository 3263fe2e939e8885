"""Logits of the user's own model, joined by event id."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.base.errors import InputError
from slc_ops.base.tabular import TabularFile

CLIP = 1e-6


def join_logits(rows: pa.Table, path: Path) -> tuple[pa.Table, dict[str, Any]]:
    """Return the rows with a column ``logit`` (null if the file has none), and a report of the gaps."""
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
        return TabularFile(path, text=["event_id"]).table()
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
