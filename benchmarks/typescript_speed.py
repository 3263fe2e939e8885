"""The TypeScript reader on a million items: load, memory of the process, one correction.

    python -m benchmarks.typescript_speed [--items 1000000]

Needs Node, and `npm ci && npm run build` in clients/typescript. Memory is the peak of the process.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.serving_speed import write_set

CLIENT = Path(__file__).resolve().parents[1] / "clients" / "typescript"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=1_000_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        directory = Path(home) / "set"
        write_set(directory, given.items, "text")
        ids = pq.read_table(directory / "item.parquet", columns=["id"])["id"].to_pylist()
        chosen = ids[:: max(1, len(ids) // 1000)]
        command = ["node", str(CLIENT / "bench.mjs"), str(directory), *chosen]
        print(
            json.dumps(json.loads(subprocess.run(command, check=True, capture_output=True).stdout), indent=1)
        )


if __name__ == "__main__":
    main()
