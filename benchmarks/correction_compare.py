"""All methods on two logs, as ``slc-ops compare --methods all`` runs it.

    python benchmarks/correction_compare.py [rows] [items]

Bar at 1 + 1 million rows and 50,000 items: 2.5 s inside the process (imports included), 1 GB peak.
"""

import resource
import sys
import time

from correction_logs import write_log


def main() -> None:
    rows, items = (int(float(text)) for text in (sys.argv[1:3] or ["1e6", "50000"]))
    calibration, test = (write_log(rows, items, seed=seed) for seed in (1, 2))
    begun, spent = time.perf_counter(), time.process_time()
    from slc_ops.evidence.compare import compare
    from slc_ops.rows.interactions import InteractionLog

    imported = time.perf_counter()
    logs = [InteractionLog.read(path) for path in (calibration, test)]
    read = time.perf_counter()
    found = compare(*logs)
    ended = time.perf_counter()
    for name, scored in found.methods.items():
        metrics = scored.metrics
        print(
            f"{name:12s} AUC {metrics['auc']:.4f}  NLL {metrics['nll']:.4f}  fit {scored.seconds_fit:.3f} s"
        )
    print(f"imports {imported - begun:.2f} s, reading {read - imported:.2f} s, ladder {ended - read:.2f} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    spent = time.process_time() - spent
    print(
        f"in all {ended - begun:.2f} s (bar 2.5), peak {peak:.0f} MB (bar 1024), processor time {spent:.2f} s"
    )


if __name__ == "__main__":
    main()
