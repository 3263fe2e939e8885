"""The history of a log: earlier rows of which only the time is needed, to place the time bins."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from slc_ops.base.errors import InputError
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.reading import open_source


def read_history(path: Path, rename: Mapping[str, str]) -> InteractionLog:
    """The event times (and weights) of a file as a log; it needs no logits, for nothing is fitted to it.

    Raises :class:`InputError` where the file has no ``event_time`` or cannot be read.
    """
    source = open_source(path, rename)
    wanted = {name: rename.get(name, name) for name in ("event_time", "weight")}
    if wanted["event_time"] not in source.types:
        raise InputError(
            f"{path} has no column {wanted['event_time']}, which a history needs; it has "
            f"{', '.join(source.types)} (rename with --map event_time=your_name)"
        )
    columns = {name: column for name, column in wanted.items() if column in source.types}
    table = pa.Table.from_batches(list(source.batches(list(columns.values())))).rename_columns(list(columns))
    blank = {"item_id": np.zeros(table.num_rows, np.int64), "label": np.zeros(table.num_rows, np.int8),
             "logit": np.zeros(table.num_rows)}  # fmt: skip
    for name, values in blank.items():
        table = table.append_column(name, pa.array(values))
    return InteractionLog.from_table(table)
