"""``slc`` fitted from a Parquet file, against the time pyarrow needs to read the same columns.

    python benchmarks/correction_fit.py [rows] [items] [int|text]

Bar: 2.0 × the scan of item, label, logit and event time at 20 million rows. Scan and fit take turns, and the
best of each counts, so that a busy machine slows both alike.
"""

import gc
import sys
import time

import pyarrow.parquet as pq
from correction_logs import write_log

from slc_ops.methods import fit
from slc_ops.rows.interactions import InteractionLog

COLUMNS = ["item_id", "label", "logit", "event_time"]


def main() -> None:
    rows, items = (int(float(text)) for text in (sys.argv[1:3] or ["2e7", "50000"]))
    path = write_log(rows, items, kind=(sys.argv[3:4] or ["int"])[0])
    scans, fits = [], []
    for _ in range(5):
        scans.append(clock(lambda: pq.read_table(path, columns=COLUMNS)))
        fits.append(clock(lambda: fit("slc", InteractionLog.read(path))))
    print(f"{rows:,} rows, {items:,} items")
    print(f"scan {min(scans):.2f} s, slc {min(fits):.2f} s, ratio {min(fits) / min(scans):.2f} (bar 2.0)")


def clock(work) -> float:
    gc.collect()
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
