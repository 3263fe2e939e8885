"""One measurement as JSON: seconds in total and of the fit, CPU seconds, peak MB. Run by ``bench.py``."""

import json
import resource
import sys
import time
from pathlib import Path

from correction_logs import write_log

Paths = list[Path]
TWO_LOGS = ("scan", "ladder", "ladder-plain", "wide-apply")


def main() -> None:
    what = sys.argv[1]
    rows, items, bins, test = (int(text) for text in sys.argv[2:])
    kind = "text" if what.startswith("wide-") else "int"
    seeds = (1, 2) if test or what in TWO_LOGS else (1,)
    paths = [write_log(rows, items, kind=kind, seed=seed) for seed in seeds]
    from slc_ops.base.memory import keep_memory_between_batches

    keep_memory_between_batches()  # as the command line does
    begun, spent = time.perf_counter(), time.process_time()
    found = WHAT[what](paths) if what in WHAT else fit(what, paths, bins)
    found |= {
        "seconds": time.perf_counter() - begun,
        "cpu": time.process_time() - spent,
        "peak": peak_megabytes(),
    }
    print(json.dumps({name: round(value, 6) for name, value in found.items()}))


def peak_megabytes() -> float:
    """The peak resident set of this process; ``ru_maxrss`` would include the parent's."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return (
        next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        / 1024
    )


def scan(paths: Paths) -> dict[str, float]:
    """Decode every column of the files, batch by batch, with Arrow's own threads."""
    import pyarrow.parquet as pq

    for path in paths:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(1 << 18, use_threads=True):
                del batch
    return {}


def scan_fit(paths: Paths) -> dict[str, float]:
    """The same for the columns that a fit reads."""
    import pyarrow.parquet as pq

    with pq.ParquetFile(paths[0]) as file:
        columns = ["item_id", "label", "logit", "event_time"]
        for batch in file.iter_batches(1 << 18, use_threads=True, columns=columns):
            del batch
    return {}


def fit_file(paths: Paths) -> dict[str, float]:
    """``slc-ops fit`` on one log, including the written set."""
    import tempfile

    from slc_ops.methods.fitting.calibration import Calibration
    from slc_ops.methods.origin import fit_with_origin
    from slc_ops.rows.interactions import InteractionLog

    with tempfile.TemporaryDirectory(dir=paths[0].parent) as scratch:
        log = InteractionLog.read(paths[0], times=True)
        fit_with_origin("slc", Calibration(log)).write(Path(scratch, "set"))
    return {}


def ladder(paths: Paths) -> dict[str, float]:
    """Fourteen methods, fitted on one log and scored on the other, with intervals: ``slc-ops compare``."""

    from slc_ops.evidence.compare import compare
    from slc_ops.rows.interactions import InteractionLog

    compare(*(InteractionLog.read(path) for path in paths))
    return {}


def fit(method: str, paths: Paths, bins: int) -> dict[str, float]:
    """One method; with a second log also its metrics there."""
    from slc_ops.methods import FitOptions
    from slc_ops.methods import fit as fit_method
    from slc_ops.rows.interactions import InteractionLog

    log = InteractionLog.read(paths[0])
    begun, spent = time.perf_counter(), time.process_time()
    parameters = fit_method(method, log, options=FitOptions(time_bins=bins))
    found = {"fit": time.perf_counter() - begun, "fit_cpu": time.process_time() - spent}
    if len(paths) > 1:
        from slc_ops.evidence.evaluation import evaluate

        metrics = evaluate(parameters, InteractionLog.read(paths[1])).metrics
        found |= {"auc": metrics["auc"], "nll": metrics["nll"]}
    return found


# --- a wide parameter set ------------------------------------------------------------------------------


def set_of(log: Path) -> Path:
    """The path of the set fitted on a log."""
    return log.with_name(log.stem + "-set")


def wide_fit(paths: Paths) -> dict[str, float]:
    from slc_ops.methods import fit as fit_method
    from slc_ops.rows.interactions import InteractionLog

    log = InteractionLog.read(paths[0])
    fit_method("slc_eb", log).write(set_of(paths[0]))
    return {"distinct": float(len(log.items))}


def wide_publish(paths: Paths) -> dict[str, float]:
    import tempfile

    from slc_ops.base.window import Window
    from slc_ops.registry import Publication, Registry
    from slc_ops.settings.environment import Installation

    with tempfile.TemporaryDirectory(dir=paths[0].parent) as home:
        Path(home, "mlflow").mkdir()
        registry = Registry.open(
            Installation(
                home=Path(home),
                deployments_file=Path(home, "deployments.yaml"),
                tracking_uri=f"sqlite:///{home}/mlflow/mlflow.db",
                ledger_url=f"sqlite:///{home}/ledger.db",
                artifact_root=Path(home, "mlflow", "artifacts").as_uri(),
            )
        )
        registry.publish(
            Publication(
                deployment="wide",
                window=Window.parse("2026-02-16/2026-02-23"),
                method="slc_eb",
                parameters=set_of(paths[0]),
                verdict={"verdict": "hold", "reasons": []},
                metrics={},
                input_digest="input",
                config_digest="config",
                code_version="bench",
                data={"evaluation": {"2026-02-16/2026-02-23": "input"}},
            )
        )
    return {}


def wide_load(paths: Paths) -> dict[str, float]:
    from slc_ops.serving import Corrector

    return {"answer": Corrector.from_directory(set_of(paths[0])).correct("item-17", 0.3)}


def wide_apply(paths: Paths) -> dict[str, float]:
    from slc_ops.parameters.applying import apply_file
    from slc_ops.parameters.parameter_set import ParameterSet

    target = paths[1].with_name(paths[1].stem + "-corrected.parquet")
    rows = apply_file(ParameterSet.read(set_of(paths[0])), paths[1], target)
    target.unlink()
    return {"corrected": float(rows)}


WHAT = {
    "scan": scan, "scan-fit": scan_fit, "fit": fit_file, "ladder": ladder,
    "wide-fit": wide_fit, "wide-publish": wide_publish, "wide-load": wide_load, "wide-apply": wide_apply,
}  # fmt: skip


if __name__ == "__main__":
    main()
