"""A corrector on a million items: load, memory, corrections per second and core, one correction, a swap.

    python -m benchmarks.serving_speed [--items 1000000] [--ids text|integer]

Times of processor use, on one core; memory is the growth of the resident set of a fresh process.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from slc_ops.numerics.curves import Affine
from slc_ops.parameters.effects import Effect
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.serving import Corrector


def write_set(directory: Path, count: int, ids: str) -> None:
    """A parameter set of ``count`` items with all columns of a fit."""
    random = np.random.default_rng(0)
    numbers = np.sort(random.choice(10**9, count, replace=False))
    names = pa.array(numbers) if ids == "integer" else pa.array([f"item-{number:09d}" for number in numbers])
    columns = {name: random.random(count) for name in ("offset_var", "n_obs", "fisher_weight", "shrinkage")}
    items = pa.table({"id": names, "offset": random.normal(size=count)} | columns)
    parameters = ParameterSet(
        "slc", Affine(1.1, 0.1), {"item": Effect(items, 1.0)}, n_rows=count, n_items=count
    )
    parameters.write(directory)


def measure(directory: Path) -> dict[str, float]:
    """All measurements of one set, in this process."""
    before = resident()
    began, used = time.perf_counter(), time.process_time()
    corrector = Corrector.from_directory(directory)
    result = {
        "load_seconds": time.perf_counter() - began,
        "load_cpu_seconds": time.process_time() - used,
        "memory_growth_mb": resident() - before,
        "memory_process_mb": resident(),
    }
    rows, logits, one = sample(directory)
    result["million_corrections_per_cpu_second"] = (
        len(rows) / best(lambda: corrector.correct(rows, logits)) / 1e6
    )
    result["one_correction_us"] = (
        best(lambda: [corrector.correct(item, 0.3) for item in one]) / len(one) * 1e6
    )
    return result | swap(corrector, directory, one)


def sample(directory: Path) -> tuple[pa.Array, np.ndarray, list[str | int]]:
    """A million rows with the set's items in random order, and a thousand of them as Python values."""
    import pyarrow.parquet as pq

    names = pq.read_table(directory / "item.parquet", columns=["id"]).column(0).combine_chunks()
    random = np.random.default_rng(1)
    rows = names.take(pa.array(random.integers(0, len(names), 1_000_000)))
    return rows, random.normal(size=1_000_000), rows.slice(0, 1000).to_pylist()


def swap(corrector: Corrector, directory: Path, one: list[str | int]) -> dict[str, float]:
    """The longest single correction while another thread loads and swaps the set."""

    def load_and_swap() -> None:
        corrector._snapshot = Corrector.from_directory(directory)._snapshot

    other = threading.Thread(target=load_and_swap)
    longest, count = 0.0, 0
    other.start()
    while other.is_alive():
        began = time.perf_counter()
        corrector.correct(one[count % len(one)], 0.3)
        longest, count = max(longest, time.perf_counter() - began), count + 1
    return {"longest_correction_during_swap_ms": longest * 1e3, "corrections_during_swap": count}


def best(action: object, times: int = 7) -> float:
    """The least CPU time of some repetitions."""
    found = []
    for _ in range(times):
        used = time.process_time()
        action()  # type: ignore[operator]  # one of the functions above
        found.append(time.process_time() - used)
    return min(found)


def resident() -> float:
    """The resident memory of this process in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def main() -> None:
    """Write a set, then measure it in a fresh process."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--ids", choices=["text", "integer"], default="text")
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.directory is not None:
        print(
            json.dumps({name: round(value, 3) for name, value in measure(given.directory).items()}, indent=2)
        )
        return
    with tempfile.TemporaryDirectory(prefix="slc-serving-") as home:
        write_set(Path(home, "set"), given.items, given.ids)
        command = [sys.executable, "-m", "benchmarks.serving_speed", "--directory", f"{home}/set"]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
