"""Logs with known biases, and small ones written out by hand."""

from typing import Any

import numpy as np
import pyarrow as pa

from slc_ops.rows.interactions import InteractionLog


def table(
    rows: int = 3000, items: int = 40, seed: int = 0, *, scale: float = 1.0, weight: bool = False
) -> pa.Table:
    """Rows of a backbone that is too steep, shifted and ignores item biases."""
    rng = np.random.default_rng(seed)
    bias = rng.normal(0, 0.9, items)
    item = np.minimum(rng.geometric(3 / items, rows) - 1, items - 1)  # few items are frequent, many rare
    logit = scale * rng.normal(0, 1.1, rows)
    chance = 1 / (1 + np.exp(-(0.8 * logit / scale + 0.3 + bias[item])))
    columns: dict[str, Any] = {
        "event_time": np.sort(rng.integers(0, 500, rows)),
        "user_id": rng.integers(0, 60, rows),
        "item_id": [f"item-{code:03d}" for code in item],
        "label": (rng.random(rows) < chance).astype(np.int8),
        "logit": logit,
    }
    if weight:
        columns["weight"] = rng.integers(0, 4, rows).astype(float)
    return pa.table(columns)


def log(*args: Any, **kwargs: Any) -> InteractionLog:
    """The same as a log."""
    return InteractionLog.from_table(table(*args, **kwargs))


def log_of(**columns: Any) -> InteractionLog:
    """A log from columns; ``item_id`` defaults to a single item."""
    size = len(columns["label"])
    return InteractionLog.from_table(pa.table({"item_id": ["only"] * size} | columns))
