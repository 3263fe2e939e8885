"""Many processes publish, promote, roll back and retire at random while one reads; checks the registry.

    python -m benchmarks.registry_stress --seconds 60 --processes 8 [--ledger URL] [--tracking URL]

Prints the counts as JSON and fails if the history of champions is broken, an alias differs from its head, a
key has two versions, or the reader found a set that fails its golden vectors.
"""

import argparse
import json
import multiprocessing
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slc_ops.base.errors import PromotionConflict, PromotionRefused, RegistryError, SlcError
from slc_ops.base.mlflow_client import quiet_mlflow
from slc_ops.numerics.curves import Affine
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.registry import Registry, logged_model
from slc_ops.registry.audit import line_findings
from slc_ops.registry.model import write_model
from slc_ops.serving import Corrector
from slc_ops.settings.environment import Installation
from tests.registry.factory import WEEKS, installation_in, parameter_set, publication, read_aliases

BROKEN = ("golden", "digest", "no parameter set", "schema version", "missing", "understood")
AT_LEAST = 15  # moves that every process attempts, whatever the load
MUST_BE_EMPTY = (
    "line_problems",
    "versions_missing_in_mlflow",
    "versions_missing_in_ledger",
    "keys_with_two_versions",
    "keys_with_two_runs",
)


@dataclass(frozen=True)
class Stress:
    """The settings of a run: duration, processes, addresses."""

    installation: Installation
    sets: list[Path]
    seconds: float
    processes: int


def worker(stress: Stress, seed: int, ready: Any, results: Any) -> None:
    """Publish, promote, roll back and retire at random until the time is over."""
    chance = random.Random(seed)
    logged_model.KEPT = 10  # so that publications delete versions that others want to promote
    registry = Registry.open(stress.installation)
    registry.client.search_experiments()  # connecting takes seconds and is not measured
    counts: Counter[str] = Counter()
    ready.wait()
    deadline = time.monotonic() + stress.seconds
    while time.monotonic() < deadline or counts.total() < AT_LEAST:
        try:
            counts[_one_move(registry, stress.sets, chance, f"process {seed}")] += 1
        except PromotionConflict:
            counts["conflict"] += 1
        except PromotionRefused:
            counts["refused by the rules"] += 1
        except RegistryError as error:
            known = [word for word in ("locked", "lock", "cleaned away", "no version") if word in str(error)]
            counts[known[0] if known else str(error)[:200]] += 1
    results.put(("worker", dict(counts)))


def _one_move(registry: Registry, sets: list[Path], chance: random.Random, actor: str) -> str:
    kind = chance.choices(["publish", "promote", "rollback", "retire"], [4, 10, 2, 1])[0]
    if kind == "publish":
        week, code = (
            chance.randrange(3),
            str(chance.randrange(20)),
        )  # few weeks, so that the rules allow many moves
        parameters = sets[week % len(sets)]
        registry.publish(publication(parameters, window=WEEKS[week], code_version=code))
    elif kind == "rollback":
        registry.rollback("demo", actor=actor, reason="stress")
    elif kind == "retire":
        registry.retire("demo", actor=actor, reason="stress")
    else:
        versions = [version for version in registry.ledger.versions("demo") if version.retired_at is None]
        if not versions:
            return "nothing to promote yet"
        registry.promote("demo", chance.choice(versions).number, actor=actor, reason="stress")
    return kind


def reader(stress: Stress, ready: Any, results: Any) -> None:
    """Follow the champion like a serving host, and compare every answer with the existing sets."""
    items, logits = ["item-3", "item-9", "never seen"], [0.2, -1.0, 2.0]
    allowed = {tuple(Corrector.from_directory(path).correct(items, logits)) for path in stress.sets}
    allowed.add(tuple(ParameterSet("base", Affine()).correct(items, logits)))  # after a retirement
    counts: Counter[str] = Counter()
    corrector = None
    ready.wait()
    deadline = time.monotonic() + stress.seconds
    while time.monotonic() < deadline:
        try:
            corrector = corrector or _corrector(stress.installation)
            counts["swaps"] += corrector.refresh()
            problem = corrector.health()["problem"]
        except SlcError as error:
            problem = str(error)
        if problem and any(word in problem for word in BROKEN):
            counts[f"BROKEN: {problem[:200]}"] += 1
        counts["looks that failed" if problem else "looks"] += 1
        if corrector is not None and tuple(corrector.correct(items, logits)) not in allowed:
            counts["BROKEN: an answer of no known set"] += 1
        time.sleep(0.01)
    results.put(("reader", dict(counts)))


def _corrector(installation: Installation) -> Corrector:
    return Corrector.from_registry(
        installation.tracking_uri, "demo", cache=installation.home / "cache", interval=None
    )


def run(stress: Stress) -> dict[str, Any]:
    """Start all processes, then check the result."""
    context = multiprocessing.get_context("fork")  # nothing is connected yet, and MLflow is imported once
    results, ready = context.Queue(), context.Barrier(stress.processes + 1)
    tasks = [context.Process(target=reader, args=(stress, ready, results))]
    for seed in range(stress.processes):
        tasks.append(context.Process(target=worker, args=(stress, seed, ready, results)))
    for task in tasks:
        task.start()
    answers = [results.get(timeout=stress.seconds + 300) for _ in tasks]
    for task in tasks:
        task.join()
    moves: Counter[str] = Counter()
    for who, counts in answers:
        if who == "worker":
            moves.update(counts)
    (seen,) = (counts for who, counts in answers if who == "reader")
    return {"moves": dict(moves), "reader": seen} | check(Registry.open(stress.installation))


def check(registry: Registry) -> dict[str, Any]:
    """The history is unbroken, the alias is its head, every key has one active version and one run."""
    ledger, client = registry.ledger, registry.client
    line, head, versions = ledger.line("demo"), ledger.head("demo"), ledger.versions("demo")
    living = [version for version in versions if version.retired_at is None]
    experiment = client.get_experiment_by_name("slc-demo")
    runs = client.search_runs([experiment.experiment_id], max_results=5000)
    keys = Counter(run.data.tags["idempotency_key"] for run in runs)
    stored = {int(version.version) for version in client.search_model_versions("name = 'slc-demo'")}
    return {
        "moves_in_ledger": len(line),
        "versions": len(living),
        "versions_cleaned": len(versions) - len(living),
        "line_problems": [str(finding) for finding in line_findings("demo", ledger.row("demo"), line)],
        "alias_is_head": read_aliases(client, "demo").get("champion") == head.champion,
        "keys_with_two_versions": len(living) - len({version.key for version in living}),
        "keys_with_two_runs": sum(count > 1 for count in keys.values()),
        "versions_missing_in_mlflow": sorted({version.number for version in living} - stored),
        "versions_missing_in_ledger": sorted(stored - {version.number for version in versions}),
    }


def problems(result: dict[str, Any]) -> list[str]:
    """All violated invariants."""
    found = [f"{name}: {result[name]}" for name in MUST_BE_EMPTY if result[name]]
    if not result["alias_is_head"]:
        found.append("the alias is not the head of the line")
    return found + [name for name in result["reader"] if name.startswith("BROKEN")]


def prepare(
    home: Path, seconds: float, processes: int, tracking: str | None = None, ledger: str | None = None
) -> Stress:
    """Parameter sets, and an MLflow database migrated before the processes are forked."""
    installation = installation_in(home, tracking, ledger)
    (home / "mlflow").mkdir(parents=True, exist_ok=True)
    code = "from slc_ops.base.mlflow_client import connect; "
    code += f"connect({installation.tracking_uri!r}, create=True).search_experiments()"
    subprocess.run([sys.executable, "-c", code], check=True)
    sets = [parameter_set(home / f"set{seed}", seed=seed) for seed in range(3)]
    _warm_up(sets[0], home / "warm")
    return Stress(installation, sets, seconds, processes)


def _warm_up(parameters: Path, directory: Path) -> None:
    """Import and initialise MLflow once for all forks."""
    quiet_mlflow()
    import mlflow.store.model_registry.sqlalchemy_store
    import mlflow.store.tracking.sqlalchemy_store  # noqa: F401 - loaded before the clock runs

    directory.mkdir()
    write_model(parameters, ParameterSet.read(parameters), directory / "model")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--ledger", help="the ledger's URL (default: SQLite in a temporary directory)")
    parser.add_argument("--tracking", help="MLflow's address (default: SQLite in a temporary directory)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slc-stress-") as home:
        result = run(prepare(Path(home), given.seconds, given.processes, given.tracking, given.ledger))
    print(json.dumps(result, indent=2))
    if found := problems(result):
        raise SystemExit("\n".join(found))


if __name__ == "__main__":
    main()
