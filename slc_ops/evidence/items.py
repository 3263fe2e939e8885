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
    """
    before, after = read_parquet(reference), read_parquet(candidate)
    gain = before["loss"].to_numpy() - after["loss"].to_numpy()
    order = np.argsort(-gain, kind="stable")

    def describe(place: int) -> dict[str, Any]:
        n = after["n"][place].as_py()
        return {
            "item_id": str(after["item_id"][place].as_py()),
            "n": n,
            "observed": after["label"][place].as_py() / n,
            "before": before["prediction"][place].as_py() / n,
            "after": after["prediction"][place].as_py() / n,
            "gain": float(gain[place]),
        }

    best = [describe(int(place)) for place in order[:shown] if gain[place] > 0]
    worst = [describe(int(place)) for place in order[::-1][:shown] if gain[place] < 0]
    return {"best": best, "worst": worst}
