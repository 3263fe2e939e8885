"""Memory of a streamed ``slc`` fit: it must not grow with the rows.

    python benchmarks/correction_memory.py [rows ...]

Bar: under 1.5 GB at 100 million rows. Each size runs in a separate process.
"""

import resource
import subprocess
import sys
import time

from correction_logs import write_log

ITEMS = 50_000


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        one(int(sys.argv[2]))
        return
    for text in sys.argv[1:] or ["1e7", "3e7", "1e8"]:
        rows = int(float(text))
        write_log(rows, ITEMS)
        subprocess.run([sys.executable, __file__, "--one", str(rows)], check=True)


def one(rows: int) -> None:
    from slc_ops.methods import fit
    from slc_ops.rows.interactions import InteractionLog

    begun = time.perf_counter()
    fit("slc", InteractionLog.read(write_log(rows, ITEMS)))
    seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{rows:,} rows: {seconds:.1f} s, {seconds / rows * 1e9:.0f} ns a row, peak {peak:.0f} MB (bar 1536)"
    )


if __name__ == "__main__":
    main()
