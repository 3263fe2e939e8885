"""``slc-ops fit --input`` of one Parquet file, relative to a scan of the same four columns by pyarrow.

    python benchmarks/correction_fit.py [rows] [items] [int|text] [method]

Bar: 2.0 × the scan of item, label, logit and event time at 20 million rows. Each figure comes from a
separate process and covers the command (reading, fit, digest, written parameter set, first use of memory)
without the start of the interpreter. Scan and fit alternate, and the best of each counts, so that a busy
machine slows both equally.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from correction_logs import write_log

COLUMNS = ["item_id", "label", "logit", "event_time"]
ROUNDS = 5


def main() -> None:
    rows, items = (int(float(text)) for text in (sys.argv[1:3] or ["2e7", "50000"]))
    kind, method = (sys.argv[3:4] or ["int"])[0], (sys.argv[4:5] or ["slc"])[0]
    path = write_log(rows, items, kind=kind)
    scans, fits = [], []
    for _ in range(ROUNDS):
        scans.append(measured("scan", path, method))
        fits.append(measured("fit", path, method))
    (scan, scan_cpu), (fit, fit_cpu) = (tuple(map(min, zip(*each, strict=True))) for each in (scans, fits))
    print(f"{rows:,} rows, {items:,} items ({kind}), {method}")
    print(f"scan {scan:.2f} s, fit {fit:.2f} s, ratio {fit / scan:.2f} (bar 3)")
    print(f"CPU: scan {scan_cpu:.2f} s, fit {fit_cpu:.2f} s, ratio {fit_cpu / scan_cpu:.2f}")


def measured(what: str, path: Path, method: str) -> tuple[float, float]:
    """Wall-clock and CPU seconds of one task in a separate process."""
    asked = [sys.executable, __file__, "--once", what, str(path), method]
    seconds = subprocess.run(asked, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
    wall, cpu = map(float, seconds.split())
    return wall, cpu


def once(what: str, path: str, method: str) -> None:
    """Run the task and print its duration."""
    if what == "scan":
        import pyarrow.parquet as pq

        begun = time.perf_counter(), time.process_time()
        pq.read_table(path, columns=COLUMNS)
    else:
        from slc_ops.cli import app

        begun = time.perf_counter(), time.process_time()
        with tempfile.TemporaryDirectory() as scratch:
            asked = ["fit", "--input", path, "--method", method, "--out", f"{scratch}/set", "--json", "-"]
            app.main(asked, standalone_mode=False)
    print(time.perf_counter() - begun[0], time.process_time() - begun[1])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--once"]:
        once(*sys.argv[2:])
    else:
        main()
