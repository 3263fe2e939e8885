"""What the gate decides in worlds with a known truth, a hundred seeds each.

* no item bias, a calibrated backbone: nothing may be promoted (at least 95 of 100);
* no item bias, a miscalibrated backbone: Platt's work, still nothing to promote;
* item bias: promote.

Run ``python benchmarks/evidence_verdicts.py [SEEDS]``.
"""

import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from slc_ops.evidence.detectability import detectability
from slc_ops.evidence.tuning import Grid
from slc_ops.evidence.verdict import decide
from slc_ops.settings.deployments import Decision
from tests.evidence.worlds import backtest, write_weeks

WORLDS = {
    "no bias, calibrated": {"bias_sd": 0.0},
    "no bias, miscalibrated": {"bias_sd": 0.0, "scale": 0.6, "shift": 0.5},
    "weak bias (sd 0.2)": {"bias_sd": 0.2},
    "bias (sd 0.6)": {"bias_sd": 0.6},
    "bias (sd 0.6), miscalibrated": {"bias_sd": 0.6, "scale": 0.6, "shift": 0.5},
}
METHODS = ["slc", "slc_eb", "slc_t", "ridge", "rescal_iso"]


def verdict_of(seed: int, world: dict) -> tuple[str, str | None]:
    with tempfile.TemporaryDirectory() as folder:
        weeks = write_weeks(Path(folder), 5, seed=seed, n=2500, users=300, items=80, **world)
        result = backtest(weeks, methods=METHODS, calibration_weeks=2, folds=3, grid=Grid())
        seen = detectability(result.plan.confirming.calibration_log())
    found = decide(result, seen, Decision(replicates=500))
    return found.verdict, found.method


def main(seeds: int) -> None:
    for name, world in WORLDS.items():
        begun = time.perf_counter()
        found = [verdict_of(seed, world) for seed in range(seeds)]
        verdicts, methods = Counter(v for v, _ in found), Counter(m for _, m in found)
        took = time.perf_counter() - begun
        print(
            f"{name:<30} {dict(verdicts)}   chosen: {dict(methods.most_common(4))}   ({took:.0f} s)",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
