"""The weekly refresh relative to one comparison of the same methods: first week, next week, by step.

    python benchmarks/refresh_speed.py [--rows-per-week 5e6] [--methods base,platt,slc_eb] [--home DIR]

A lake of nine simulated weeks (200,000 users and 30,000 items at five million rows a week) is refreshed for
its eighth week from scratch, then for its ninth; then ``compare`` fits and scores the same methods once, on
the calibration and test weeks of the newest fold, with intervals, like ``slc-ops compare``. Each runs in a
separate process; ratios are between wall times of one run. The bars, for ``base``, ``platt`` and ``slc_eb``:
the first refresh within 11 ×, the next within 2.8 × the comparison, 2.2 GB at most. ``--methods all`` has no
bars.

    python benchmarks/refresh_speed.py --lists [--rows-per-week 3e5]

The default list compared with the same list without ``slc_mix``: two homes over one lake of 29 weeks, more
than the memory of ``slc_mix``, refreshed for the week before the last from scratch, then for the last. Ratios
are between CPU seconds of one run. The bar: the last week's refresh within 1.6 ×.

    python benchmarks/refresh_speed.py --engines [--rows-per-week 1e6]

The same two refreshes with ``engine: local`` and, on a cluster of two workers on loopback, with ``engine:
spark`` (needs PySpark): seconds by step, and whether both serve the same method with the same link to 1e-9.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from slc_ops.base.methods import METHODS as KNOWN

HERE = Path(__file__)
NAME, CALIBRATION_WEEKS = "bench", 4
FIRST, NEXT = "2026-02-23/2026-03-02", "2026-03-02/2026-03-09"
METHODS = ("base", "platt", "slc_eb")
BARS = {"first": 11.0, "next": 2.8}
PEAK_BAR_GB = 2.2
LISTS_BAR, LISTS_WEEKS = 1.6, 29
LISTS_FIRST, LISTS_NEXT = "2026-07-13/2026-07-20", "2026-07-20/2026-07-27"
FULL = 5_000_000


def measure(rows_per_week: int, home: Path | None = None, methods: Sequence[str] = METHODS) -> dict[str, Any]:
    """All three runs; seconds, steps and peaks of each."""
    with tempfile.TemporaryDirectory(prefix="slc-ops-bench-") as scratch:
        place = home or Path(scratch)
        place.mkdir(parents=True, exist_ok=True)
        if not (place / "lake").exists():
            run("simulated", place, place / "lake", rows_per_week, 9)
        declare(place, place / "lake", list(methods))
        found = {"first": run("refresh", place, FIRST), "next": run("refresh", place, NEXT)}
        found["compare"] = run("compare", place, *methods)
    for name in BARS:
        found[name]["times_compare"] = found[name]["seconds"] / found["compare"]["seconds"]
    return found | {"rows_per_week": rows_per_week}


def measure_lists(rows_per_week: int, home: Path | None = None) -> dict[str, Any]:
    """Both refreshes with the default list and without ``slc_mix``, over one lake."""
    from slc_ops.settings.deployments import Deployment

    default = Deployment.model_fields["methods"].default
    lists = {"three": [name for name in default if name != "slc_mix"], "four": list(default)}
    found: dict[str, Any] = {"rows_per_week": rows_per_week}
    with tempfile.TemporaryDirectory(prefix="slc-ops-bench-") as scratch:
        place = home or Path(scratch)
        for name, methods in lists.items():
            (place / name).mkdir(parents=True, exist_ok=True)
            if not (place / "lake").exists():
                run("simulated", place / name, place / "lake", rows_per_week, LISTS_WEEKS)
            declare(place / name, place / "lake", methods)
            found[name] = {
                each: run("refresh", place / name, window)
                for each, window in (("first", LISTS_FIRST), ("next", LISTS_NEXT))
            }
    return found


def measure_engines(
    rows_per_week: int, home: Path | None = None, methods: Sequence[str] = METHODS
) -> dict[str, Any]:
    """Both refreshes in this process, and on a cluster of two workers, over one lake."""
    sys.path.insert(0, str(HERE.resolve().parents[1]))
    from tests.engines.spark.cluster import Cluster

    found: dict[str, Any] = {"rows_per_week": rows_per_week}
    with tempfile.TemporaryDirectory(prefix="slc-ops-bench-") as scratch:
        place = home or Path(scratch)
        cluster = Cluster(Path(scratch) / "cluster", memory="2g").start()
        os.environ |= {"SLC_OPS_SPARK_MASTER": cluster.master, "SPARK_LOCAL_IP": "127.0.0.1"}
        try:
            for engine in ("local", "spark"):
                (place / engine).mkdir(parents=True, exist_ok=True)
                if not (place / "lake").exists():
                    run("simulated", place / engine, place / "lake", rows_per_week, 9)
                declare(place / engine, place / "lake", list(methods), engine)
                found[engine] = {
                    each: run("refresh", place / engine, window)
                    for each, window in (("first", FIRST), ("next", NEXT))
                }
        finally:
            cluster.stop()
    return found


def engines_table(found: dict[str, Any]) -> str:
    """The seconds of both engines in Markdown, and whether they agree."""
    steps = list(found["local"]["first"]["steps"])
    lines = [["", "engine", "seconds", "ratio", *steps], ["---"] * (4 + len(steps))]
    for name, title in (("first", "first refresh"), ("next", "next week's")):
        for engine in ("local", "spark"):
            each = found[engine][name]
            ratio = f"{each['seconds'] / found['local'][name]['seconds']:.1f}"
            own = [f"{each['steps'].get(step, 0):.1f}" for step in steps]
            lines.append([title, engine, f"{each['seconds']:.1f}", ratio, *own])
    local, spark = (found[engine]["next"]["served"] for engine in ("local", "spark"))
    apart = max(abs(local[name] - spark[name]) for name in ("a", "b0"))
    same = f"Both serve {local['method']}" if local["method"] == spark["method"] else f"{local} | {spark}"
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{table}\n\n{same}; their links differ by {apart:.0e}."


def lists_table(found: dict[str, Any]) -> str:
    """The figures of both lists in Markdown."""
    steps = list(found["four"]["first"]["cpu_steps"])
    head = ["", "three", "four", "ratio", *steps]
    lines = [head, ["---"] * len(head)]
    for name, title in (("first", "first refresh"), ("next", "next week's")):
        three, four = found["three"][name], found["four"][name]
        bar = f" (bar {LISTS_BAR:g})" if name == "next" else ""
        own = [f"{three['cpu_steps'].get(s, 0):.1f} → {four['cpu_steps'].get(s, 0):.1f}" for s in steps]
        ratio = f"{four['cpu'] / three['cpu']:.2f}{bar}"
        lines.append([title, f"{three['cpu']:.1f}", f"{four['cpu']:.1f}", ratio, *own])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def run(what: str, home: Path, *arguments: object) -> dict[str, Any]:
    """One measurement in a separate process."""
    installation = {"SLC_OPS_HOME": str(home / "home"), "SLC_OPS_DEPLOYMENTS": str(home / "deployments.yaml")}
    command = [sys.executable, str(HERE), "--child", what, str(home), *map(str, arguments)]
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **installation}
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"{what} {' '.join(map(str, arguments))}: {found}", file=sys.stderr, flush=True)
    return found


def simulated(_: Path, lake: Path | str, rows_per_week: str, weeks: int | str) -> dict[str, Any]:
    """A lake of some weeks."""
    from slc_ops.demo.simulate import simulate

    rows = int(rows_per_week)
    users, items = max(1000, rows // 25), max(300, rows * 30_000 // FULL)
    simulate(Path(lake), weeks=int(weeks), users=users, items=items, new_items=300, rows_per_week=rows)
    return {}


def declare(home: Path, lake: Path, methods: list[str], engine: str = "local") -> None:
    """Write the deployments file."""
    source = {"kind": "lake", "path": str(lake)}
    entry = {"source": source, "methods": methods, "gate": "auto", "engine": engine}
    # JSON is YAML, too.
    (home / "deployments.yaml").write_text(json.dumps({"deployments": {NAME: entry}}))


def refresh(home: Path, window: str) -> dict[str, Any]:
    """One weekly refresh; seconds by step, the folds (or methods) of a step together."""
    from slc_ops.base.window import Window
    from slc_ops.refresh import pipeline
    from slc_ops.settings.environment import Installation

    steps: dict[str, float] = {}
    cpu: dict[str, float] = {}
    spent = time.process_time()

    def tell(text: str) -> None:
        nonlocal spent
        if text.endswith(" s"):
            name, *_, seconds, _ = text.split()
            steps[name] = steps.get(name, 0.0) + float(seconds)
            now = time.process_time()
            cpu[name], spent = round(cpu.get(name, 0.0) + now - spent, 2), now

    plan = pipeline.refresh(Installation.from_environment(), NAME, Window.parse(window), tell=tell)
    params = json.loads((plan.files.parameters / "params.json").read_text())
    served = {"method": params["method"], **{name: params["link"][name] for name in ("a", "b0")}}
    return {"steps": steps, "cpu_steps": cpu, "served": served}


def compare(home: Path, *methods: str) -> dict[str, Any]:
    """The same methods once, as ``slc-ops compare`` does it."""
    from slc_ops.evidence.compare import compare as compare_methods
    from slc_ops.rows.interactions import InteractionLog

    weeks = sorted((home / "home" / "windows" / NAME).glob("20*/log.parquet"))
    calibration, test = weeks[-1 - CALIBRATION_WEEKS : -1], weeks[-1]
    compare_methods(InteractionLog.read(calibration), InteractionLog.read(test), methods=methods)
    return {}


def table(found: dict[str, Any]) -> str:
    """The figures in Markdown."""
    steps = list(found["first"]["steps"])
    columns = [["", "---", "seconds", "× compare", "CPU seconds", "peak GB", *steps]]
    compared = found["compare"]["seconds"]
    for name, title in (("first", "first refresh"), ("next", "next week's"), ("compare", "`compare`")):
        each = found[name]
        bar = f" (bar {BARS[name]:g})" if name in BARS else ""
        ratio = f"{each['seconds'] / compared:.1f}{bar}"
        own = [f"{each['steps'].get(step, 0):.1f}" if name in BARS else "" for step in steps]
        numbers = [f"{each['seconds']:.1f}", ratio, f"{each['cpu']:.1f}", f"{each['peak_gb']:.2f}"]
        columns.append([title, "---", *numbers, *own])
    return "\n".join(f"| {' | '.join(line)} |" for line in zip(*columns, strict=True))


def child(what: str, *arguments: str) -> None:
    """Run one measurement and print it as JSON."""
    from slc_ops.base.memory import keep_memory_between_batches

    keep_memory_between_batches()  # as the command line does
    begun = time.perf_counter()
    known: dict[str, Callable[..., dict[str, Any]]] = {
        "simulated": simulated, "refresh": refresh, "compare": compare,
    }  # fmt: skip
    found = known[what](Path(arguments[0]), *arguments[1:])
    usage = resource.getrusage(resource.RUSAGE_SELF)
    found |= {"seconds": time.perf_counter() - begun, "cpu": usage.ru_utime + usage.ru_stime}
    print(json.dumps(found | {"peak_gb": usage.ru_maxrss / 2**20}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--lists", action="store_true", help="the default list beside it without slc_mix")
    parser.add_argument("--engines", action="store_true", help="engine: spark beside engine: local")
    parser.add_argument("--methods", default=",".join(METHODS), help="names, or all")
    parser.add_argument("--rows-per-week", type=float, help="5e6; --lists: 3e5; --engines: 1e6")
    parser.add_argument("--home", type=Path, help="keep lake and results here (default: a temporary folder)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON instead of a table")
    given = parser.parse_args()
    methods = list(KNOWN) if given.methods == "all" else given.methods.split(",")
    if given.lists:
        found = measure_lists(int(given.rows_per_week or 300_000), given.home)
        shown = lists_table
    elif given.engines:
        found = measure_engines(int(given.rows_per_week or 1_000_000), given.home, methods)
        shown = engines_table
    else:
        found, shown = measure(int(given.rows_per_week or FULL), given.home, methods), table
    print(json.dumps(found) if given.json else shown(found))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    else:
        main()
