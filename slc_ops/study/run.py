"""The study: train every backbone with every seed, write frozen logits, analyse them, write the page.

A directory per run (``dkt-225``) holds checkpoints, logits in the log's contract and the training report.
Finished runs are not repeated; interrupted runs resume.
"""

import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slc_ops.base.digests import digest_file
from slc_ops.base.errors import SettingsError
from slc_ops.base.files import make_directory, read_json, replacing, typed_storage, write_json
from slc_ops.methods import FitOptions
from slc_ops.paper.analyses import Rows, analyse
from slc_ops.paper.datasets.ingest import REPORT as INGESTED
from slc_ops.rows.interactions import InteractionLog, read_history
from slc_ops.study.registry import BACKBONES, Backbone
from slc_ops.study.sequences import CALIBRATION, CHOICE, TEST, Sequences, read_sequences
from slc_ops.study.trainer import Settings, train

Tell = Callable[[str], None]
TRAINING = "training.json"


@dataclass(frozen=True)
class Run:
    """A backbone trained with a seed: its training report and the paper's tables."""

    backbone: str
    seed: int
    training: dict[str, Any]
    tables: dict[str, Rows]


@dataclass(frozen=True)
class Study:
    """The content of the page."""

    source: str
    dataset: str | None
    counts: dict[str, int]
    settings: Settings
    runs: list[Run]
    seconds_tables: float


def study(
    source: Path, out: Path, backbones: Sequence[Backbone], seeds: Sequence[int], settings: Settings,
    *, rename: Mapping[str, str] | None = None, dataset: str | None = None, tell: Tell = lambda text: None,
) -> Study:  # fmt: skip
    """Train and predict, then analyse every run of the same data in ``out``.

    :func:`slc_ops.study.page.write_study` writes the page.
    """
    sequences = read_sequences(source, rename)
    make_directory(out, shared=True)
    counts = _counts(sequences)
    tell(", ".join(f"{value:,} {name}" for name, value in counts.items()))
    history = out / "history.parquet"
    _write(sequences, np.flatnonzero(sequences.part <= CHOICE), history)
    for backbone in backbones:
        for seed in seeds:
            _train(sequences, backbone, seed, settings, out / f"{backbone.name}-{seed}", tell)
    begun = time.process_time()
    runs = []
    for report in sorted(out.glob(f"*/{TRAINING}")):
        training = read_json(report)
        name, seed = training["backbone"]["name"], training["seed"]
        if (training["data"], training["choose_epoch"]) != (sequences.digest(), settings.choose_epoch):
            tell(f"{report.parent} is left out: its data or its choice of the epoch differ")
            continue
        tell(f"the paper's tables of {name} seed {seed}")
        calibration, test = (
            InteractionLog.read(report.with_name(f"{part}.parquet")) for part in ("calibration", "test")
        )
        tables = analyse(calibration, test, history=read_history(history, {}), options=FitOptions())
        runs.append(Run(name, seed, training, tables))
    runs.sort(key=lambda run: (tuple(BACKBONES).index(run.backbone), run.seed))
    known = source / INGESTED
    if dataset is None and known.exists():
        dataset = read_json(known).get("dataset")
    return Study(source.name, dataset, counts, settings, runs, time.process_time() - begun)


def _train(
    sequences: Sequences, backbone: Backbone, seed: int, settings: Settings, directory: Path, tell: Tell
) -> None:
    """Train an unfinished run; write its logits and its training report."""
    kind = {"data": sequences.digest(), "backbone": asdict(backbone), "choose_epoch": settings.choose_epoch}
    report = directory / TRAINING
    make_directory(directory, shared=True)
    if report.exists():
        found = read_json(report)
        other = [name for name, value in kind.items() if found.get(name) != value]
        if other:
            raise SettingsError(
                f"{directory} holds a run with other {' and '.join(other)}; "
                "give another --out, or remove it to begin again"
            )
        if all(digest_file(directory / name) == digest for name, digest in found["files"].items()):
            tell(f"{backbone.name} seed {seed} is finished")
            return
    with typed_storage(directory):
        begun = time.process_time()
        trained = train(sequences, backbone, seed, settings, directory, tell)
        version = f"{backbone.name}-{seed}-{trained.key[:8]}"
        files = {}
        for part, name in ((CALIBRATION, "calibration.parquet"), (TEST, "test.parquet")):
            rows = np.flatnonzero(sequences.part == part)
            _write(sequences, rows, directory / name, trained.logit, version)
            files[name] = digest_file(directory / name)
    cpu = sum(each["cpu_seconds"] for each in trained.epochs)
    found = {
        **kind, "seed": seed,
        "epochs": trained.epochs, "chosen": trained.chosen, "parameters": trained.parameters, "files": files,
        "cpu_minutes": cpu / 60, "cpu_minutes_now": (time.process_time() - begun) / 60, "peak_mb": _peak_mb(),
    }  # fmt: skip
    write_json(report, found, shared=True)


def _write(
    sequences: Sequences, rows: np.ndarray, path: Path, logit: np.ndarray | None = None, version: str = ""
) -> None:
    """Write rows in the log's contract, with frozen logits and their version if given."""
    table = sequences.rows.take(pa.array(rows))
    if logit is not None:
        table = table.append_column("logit", pa.array(logit[rows]))
        table = table.append_column("backbone_version", pa.repeat(version, table.num_rows))
    with replacing(path, shared=True) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def _counts(sequences: Sequences) -> dict[str, int]:
    parts = np.bincount(sequences.part, minlength=4)
    return {
        "rows": len(sequences.label), "users": len(sequences.first) - 1, "items": sequences.items - 1,
        "skills": sequences.skills - 1, "train rows": int(parts[:2].sum()), "calibration rows": int(parts[2]),
        "test rows": int(parts[3]), "rows of users with too few": sequences.left_out,
    }  # fmt: skip


def _peak_mb() -> float:
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
