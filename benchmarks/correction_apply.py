"""A champion with a million items: loading, corrections per second and core, one correction.

    python benchmarks/correction_apply.py [items]

Bars: loading 2 s, 10 million rows a second and core from a log, 5 million from ids and logits as a server
gets them, 50 µs for one row. Seconds are CPU seconds.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from slc_ops.numerics.curves import Affine
from slc_ops.parameters.effects import Effect
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.rows.interactions import InteractionLog

ROWS = 4_000_000


def main() -> None:
    items = int(float((sys.argv[1:2] or ["1e6"])[0]))
    rng = np.random.default_rng(0)
    numbers = np.sort(rng.choice(10 * items, items, replace=False))
    for kind in ("integers", "text"):
        ids = pa.array(numbers if kind == "integers" else [f"item-{number}" for number in numbers])
        measure(kind, ids.cast(ids.type), rng)


def measure(kind: str, ids: pa.Array, rng: np.random.Generator) -> None:
    columns = {
        name: rng.random(len(ids)) for name in ("offset", "offset_var", "n_obs", "fisher_weight", "shrinkage")
    }
    order = np.asarray(pa.compute.sort_indices(ids))
    table = pa.table({"id": ids.take(pa.array(order)), **columns})
    written = ParameterSet("slc", Affine(1.1, 0.1), effects={"item": Effect(table, 1.0)}, n_items=len(ids))
    with tempfile.TemporaryDirectory() as directory:
        written.write(Path(directory) / "set")
        loading, parameters = best(lambda: ParameterSet.read(Path(directory) / "set"), times=2)
    asked = ids.take(pa.array(rng.integers(0, len(ids), ROWS)))
    logit = rng.normal(size=ROWS)
    log = InteractionLog.from_table(
        pa.table({"item_id": asked, "label": np.zeros(ROWS, np.int8), "logit": logit})
    )
    from_log, _ = best(lambda: parameters.apply(log, threads=1))
    from_ids, _ = best(lambda: parameters.correct(asked, logit))
    one = asked[7].as_py()
    single, _ = best(lambda: [parameters.correct([one], [0.3]) for _ in range(1000)])
    print(
        f"{len(ids):,} items ({kind}): loading {loading:.2f} s; million rows a second: "
        f"{ROWS / from_log / 1e6:.0f} from a log, {ROWS / from_ids / 1e6:.0f} from ids; "
        f"one row {single * 1000:.1f} µs"
    )


def best(work, times: int = 3):
    seconds, answer = float("inf"), None
    for _ in range(times):
        begun = time.process_time()
        answer = work()
        seconds = min(seconds, time.process_time() - begun)
    return seconds, answer


if __name__ == "__main__":
    main()
