"""Which items gained most from a correction on the newest window, and which lost."""

from pathlib import Path
from typing import Any

import numpy as np

from slc_ops.base.parquet import read_parquet

SHOWN = 8


def item_gains(reference: Path, candidate: Path, shown: int = SHOWN) -> dict[str, list[dict[str, Any]]]:
    """The items with the largest total gain and loss in log-likelihood (nats) against the reference.

    Both files come from scores on the same rows, so their items stand in the same order. The total, not the
    mean, ranks them: a large mean on three rows is noise, a large total is where users feel a difference.
    Rows count with their weights, and ``n`` is their weight: a whole number where weights are.
    """
    before, after = read_parquet(reference), read_parquet(candidate)
    gain = before["loss"].to_numpy() - after["loss"].to_numpy()
    order = np.argsort(-gain, kind="stable")

    def describe(index: int) -> dict[str, Any]:
        n = float(after["n"][index].as_py())
        return {
            "item_id": str(after["item_id"][index].as_py()),
            "n": int(n) if n.is_integer() else n,
            "observed": after["label"][index].as_py() / n,
            "before": before["prediction"][index].as_py() / n,
            "after": after["prediction"][index].as_py() / n,
            "gain": float(gain[index]),
        }

    best = [describe(int(index)) for index in order[:shown] if gain[index] > 0]
    worst = [describe(int(index)) for index in order[::-1][:shown] if gain[index] < 0]
    return {"best": best, "worst": worst}
