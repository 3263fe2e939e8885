"""Exported SQL in DuckDB relative to a plain scan and join of the same tables.

    python benchmarks/export_speed.py [--rows 1e7] [--items 1e6]

Both queries read the same columns and end in one sum, so that only the scan, the join and the formula
are measured. Seconds are CPU seconds of the process; each figure is the least of five alternating runs.
"""

import argparse
import tempfile
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from slc_ops.numerics.curves import Affine, Curve, Isotonic
from slc_ops.parameters.effects import Effect
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.serving.export import Exported, export

PLAIN = (
    """SELECT sum(t.logit + coalesce(i.added, 0)) FROM log AS t LEFT JOIN slc_item AS i ON i.id = t.item_id"""
)
VIEW = "SELECT sum(p_corrected) FROM slc_corrected"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--items", type=float, default=1e6)
    given = parser.parse_args()
    rows, items = int(given.rows), int(given.items)
    rng = np.random.default_rng(3)
    ids = pa.array([f"item-{k:08d}" for k in range(items)])
    offsets = {"item": Effect(pa.table({"id": ids, "offset": rng.normal(size=items)}), 1.0)}
    knots = np.sort(rng.random(200))
    links: dict[str, Curve] = {
        "a line": Affine(1.1, -0.2),
        "200 knots": Isotonic(knots, np.sort(rng.random(200))),
    }
    chosen = pa.array(rng.integers(0, items, rows))
    log = pa.table({"item_id": ids.take(chosen), "logit": rng.normal(size=rows)})
    for name, link in links.items():
        with tempfile.TemporaryDirectory() as directory, duckdb.connect() as connection:
            out = Path(directory) / "sql"
            export(Exported(ParameterSet("slc", link, offsets, cold=cold(link)), "0" * 64), out, "sql")
            connection.execute(f"SET file_search_path = '{out}'")
            connection.register("arrow_log", log)
            connection.execute("CREATE TABLE log AS SELECT * FROM arrow_log")
            for script in ("effects.sql", "score.sql"):
                connection.execute((out / script).read_text(encoding="utf-8"))
            seconds: dict[str, list[float]] = {PLAIN: [], VIEW: []}
            for _ in range(5):
                for query, taken in seconds.items():
                    begun = time.process_time()
                    connection.execute(query).fetchall()
                    taken.append(time.process_time() - begun)
            plain, view = min(seconds[PLAIN]), min(seconds[VIEW])
            print(
                f"{name}: {rows:,} rows, {items:,} items: plain {plain:.2f} s, view {view:.2f} s, "
                f"{view / plain:.2f} x"
            )


def cold(link: Curve) -> Affine | None:
    """A separate line for unknown items if the link is a line."""
    return Affine(1.0, -0.1) if isinstance(link, Affine) else None


if __name__ == "__main__":
    main()
