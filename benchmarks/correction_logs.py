"""Synthetic logs of any size for the benchmarks: written once per size, kept between runs."""

import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

CHUNK = 1 << 20
ROOT = Path(os.environ.get("SLC_OPS_BENCH", Path(tempfile.gettempdir()) / "slc-ops-bench"))


def write_log(rows: int, items: int, *, kind: str = "int", seed: int = 1) -> Path:
    """A Parquet file with per-item bias, in the directory ``SLC_OPS_BENCH`` or the system's temporary one.

    The rows of a higher seed are later, as those of a test log are.
    """
    path = ROOT / f"log-{rows}-{items}-{kind}-{seed}-in-time.parquet"
    if path.exists():
        return path
    ROOT.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    bias = np.random.default_rng(0).normal(0, 1, items)
    temporary = path.with_suffix(".part")
    writer = None
    for first in range(0, rows, CHUNK):
        size = min(CHUNK, rows - first)
        item = rng.integers(0, items, size)
        logit = rng.normal(0, 1.2, size)
        chance = 1 / (1 + np.exp(-(0.9 * logit + 0.2 + bias[item])))
        names = (
            item if kind == "int" else pc.binary_join_element_wise("item", pa.array(item).cast("str"), "-")
        )
        table = pa.table(
            {
                "event_time": np.arange(first, first + size) + (seed - 1) * rows,
                "user_id": rng.integers(0, max(items, 1000), size),
                "item_id": names,
                "label": (rng.random(size) < chance).astype(np.int8),
                "logit": logit,
            }
        )
        writer = writer or pq.ParquetWriter(temporary, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()
    temporary.replace(path)
    return path
