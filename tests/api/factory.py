"""A small log with known items, as any kind of frame."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

KINDS = ("pandas", "polars", "arrow", "mapping")


def frame(rows: int = 3000, items: int = 30, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    item = rng.integers(0, items, rows)
    bias = np.random.default_rng(99).normal(0, 1, items)
    logit = rng.normal(0, 1, rows)
    return pd.DataFrame(
        {
            "problem": [f"item-{k}" for k in item],
            "score": logit,
            "student": rng.integers(0, 100, rows),
            "when": np.arange(rows) + seed * rows,
            "correct": (rng.random(rows) < 1 / (1 + np.exp(-logit - bias[item]))).astype(int),
        }
    )


def as_kind(found: pd.DataFrame, kind: str) -> Any:
    if kind == "polars":
        return pl.from_pandas(found)
    if kind == "arrow":
        return pa.Table.from_pandas(found, preserve_index=False)
    if kind == "mapping":
        return {name: found[name].to_numpy() for name in found}
    return found
