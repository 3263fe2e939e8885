"""The loss of ``slc_eb`` if its prior is chosen on a sample: v, s and the NLL on a later log, both ways.

    python benchmarks/prior_sample.py [rows] [world ...]

Every world is a calibration log and a later one of half the rows: popular and rare items, busy and idle
users. Offsets last (``sd``) or pass (``passing``: they change with the last fifth of the log, and again with
the next one). Both fits are made on all rows; only the rows on which the prior is chosen differ.
"""

import sys
import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from correction_logs import CHUNK, ROOT

from slc_ops.methods import fit, slc_eb
from slc_ops.methods.fitting import prior_sample
from slc_ops.rows.interactions import InteractionLog

EVERY_ROW = 1 << 62


@dataclass(frozen=True)
class World:
    items: int
    sd: float
    passing: float = 0.0
    users: int = 200_000
    user_column: bool = True
    item_skew: float = 2.0
    user_skew: float = 2.0


WORLDS = {
    "50,000 items": World(50_000, 0.4),
    "50,000 items, offsets far apart": World(50_000, 1.0),
    "2,000,000 items": World(2_000_000, 0.7, users=2_000_000),
    "2,000,000 items, offsets close": World(2_000_000, 0.15, users=2_000_000),
    "half passes": World(50_000, 0.5, 0.5),
    "a fifth passes": World(50_000, 0.5, 0.25),
    "half passes, 2,000,000 items": World(2_000_000, 0.5, 0.5, users=2_000_000),
    "no bias": World(50_000, 0.0),
    "no bias, 2,000,000 items": World(2_000_000, 0.0, users=2_000_000),
    "100 items": World(100, 0.5),
    "100 items, half passes": World(100, 0.5, 0.5),
    "three users": World(50_000, 0.4, users=3),
    "half passes, no users": World(50_000, 0.5, 0.5, user_column=False),
}


def write(name: str, rows: int, window: int) -> InteractionLog:
    """One log of a world, written once and kept."""
    world, total = WORLDS[name], rows
    path = ROOT / f"prior-{name.replace(' ', '-').replace(',', '')}-{rows}-{window}.parquet"
    if not path.exists():
        ROOT.mkdir(parents=True, exist_ok=True)
        lasting = np.random.default_rng(0).normal(0, 1, world.items) * world.sd
        rng = np.random.default_rng(window + 1)
        passing = rng.normal(0, 1, (2, world.items)) * world.passing
        temporary, writer = path.with_suffix(".part"), None
        for first in range(0, total, CHUNK):
            size = min(CHUNK, total - first)
            row = np.arange(first, first + size)
            item = (world.items * rng.random(size) ** world.item_skew).astype(np.int64)
            logit = rng.normal(0, 1.2, size)
            offset = lasting[item] + passing[(row >= 0.8 * total).astype(int), item]
            chance = 1 / (1 + np.exp(-(0.9 * logit + 0.2 + offset)))
            columns = {
                "event_time": row + window * 10**9,
                "item_id": item,
                "label": (rng.random(size) < chance).astype(np.int8),
                "logit": logit.astype(np.float32),
            }
            if world.user_column:
                columns["user_id"] = (world.users * rng.random(size) ** world.user_skew).astype(np.int64)
            table = pa.table(columns)
            writer = writer or pq.ParquetWriter(temporary, table.schema)
            writer.write_table(table)
        assert writer is not None
        writer.close()
        temporary.replace(path)
    return InteractionLog.read(path)


def loss(parameters: slc_eb.ParameterSet, log: InteractionLog) -> float:
    """Mean −log-likelihood."""
    p = parameters.apply(log)
    return -float(np.mean(np.log(np.where(log.label > 0, p, 1 - p))))


def main() -> None:
    rows = int(float(sys.argv[1])) if sys.argv[1:] else 20_000_000
    choose, chosen = slc_eb.choose_prior, []

    def traced(*arguments: object) -> object:
        begun = time.process_time()
        found = choose(*arguments)  # type: ignore[arg-type]
        chosen.append((found[0], time.process_time() - begun))
        return found

    slc_eb.choose_prior = traced  # type: ignore[assignment]
    print("| log | v, s by all rows | by the sample | rows of it | NLL later, all rows | difference |")
    print("|---|---|---|---|---|---|")
    for name in sys.argv[2:] or WORLDS:
        log, later = write(name, rows, 0), write(name, rows // 2, 1)
        sample, losses = prior_sample.prior_rows(log), []
        for most in (EVERY_ROW, prior_sample.PRIOR_ROWS):
            usual, prior_sample.PRIOR_ROWS = prior_sample.PRIOR_ROWS, most
            losses.append(loss(fit("slc_eb", log), later))
            prior_sample.PRIOR_ROWS = usual
        (every, _), (some, _) = chosen[-2:]
        size = "all" if sample is None else f"{len(sample):,}"
        print(
            f"| {name} | {every.variance:g}, {every.lasting:g} | {some.variance:g}, {some.lasting:g} "
            f"| {size} | {losses[0]:.6f} | {losses[1] - losses[0]:+.1e} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
