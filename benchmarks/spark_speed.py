"""All methods on a Spark cluster of two workers on loopback, relative to the local engine on the same files.

    python benchmarks/spark_speed.py [rows] [items] [methods] [both|spark|local]

Every method is fitted on the first file and scored on the second. Bars: within 4 × the local engine's time at
20 + 20 million rows, and a driver whose memory does not grow with the rows (run it with 2e6 and 2e7 rows).
"""

import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path

from correction_logs import write_log

ROOT = Path(__file__).parent.parent


def peak_mb(pid: int) -> float:
    """The peak memory of a process."""
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0  # a zombie process


def main() -> None:
    sys.path.insert(0, str(ROOT))
    from slc_ops.evidence.evaluation import evaluate
    from slc_ops.methods import METHODS, fit_prepared
    from slc_ops.methods.fitting.calibration import Calibration
    from slc_ops.rows.engine import LOCAL, engine_of
    from tests.engines.spark.cluster import Cluster, descendants

    rows, items = (int(float(text)) for text in (*sys.argv[1:3], "2e6", "10000")[:2])
    methods = sys.argv[3].split(",") if len(sys.argv) > 3 and sys.argv[3] != "all" else METHODS
    only = sys.argv[4] if len(sys.argv) > 4 else "both"
    paths = [write_log(rows, items, seed=seed) for seed in (1, 2)]
    cluster = Cluster(Path(tempfile.mkdtemp(prefix="slc-ops-spark-")), memory="2g").start()
    os.environ |= {"SLC_OPS_SPARK_MASTER": cluster.master, "SPARK_LOCAL_IP": "127.0.0.1"}
    seconds: dict[str, float] = {}  # and megabytes
    try:
        for name, engine in (("spark", engine_of("spark")), ("local", LOCAL)):
            if only not in ("both", name):
                continue
            if name == "spark":
                begun = time.perf_counter()
                session = engine.session  # type: ignore[attr-defined]
                seconds["session"] = time.perf_counter() - begun
                print(f"session {seconds['session']:.1f} s")
            begun = time.perf_counter()
            calibration, test = (engine.read(path) for path in paths)
            ready = Calibration(calibration)
            print(f"{name:5s} read {time.perf_counter() - begun:6.2f} s")
            for method in methods:
                start = time.perf_counter()
                parameters = fit_prepared(method, ready)
                fitted = time.perf_counter()
                metrics = evaluate(parameters, test).metrics
                now = time.perf_counter()
                print(
                    f"{name:5s} {method:12s} fit {fitted - start:6.2f} s  score {now - fitted:6.2f} s  "
                    f"AUC {metrics.auc:.7f}  NLL {metrics.nll:.7f}",
                    flush=True,
                )
            seconds[name] = time.perf_counter() - begun
            print(f"{name:5s} in all {seconds[name]:.2f} s")
            if name == "spark":
                # The driver is this process and its JVM, without the processes of the cluster.
                others = {pid for each in cluster.processes.values() for pid in descendants(each.pid)}
                others |= {each.pid for each in cluster.processes.values()}
                own = [pid for pid in descendants(os.getpid()) if pid not in others]
                seconds |= {"driver": peak_mb(os.getpid()), "jvm": sum(peak_mb(pid) for pid in own)}
                print(f"driver: Python {seconds['driver']:.0f} MB, JVM {seconds['jvm']:.0f} MB at most")
                session.stop()
    finally:
        cluster.stop()
    if "local" in seconds and "spark" in seconds:
        ratio = seconds["spark"] / seconds["local"]
        print(f"{rows:,} + {rows:,} rows: {ratio:.2f} × the local engine (bar 4)")
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
