"""Real, small parameter sets and publications for the tests of registry and serving."""

import resource
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from slc_ops.base.window import Window
from slc_ops.methods import fit
from slc_ops.parameters.parameter_set import ParameterSet
from slc_ops.registry import Publication, Registry, Version
from slc_ops.registry.publication import EVALUATION
from slc_ops.rows.interactions import InteractionLog
from slc_ops.settings.environment import Installation, registered_model

WEEKS = [Window.parse("2026-01-05/2026-01-12")]
for _ in range(12):
    WEEKS.append(Window(WEEKS[-1].end, WEEKS[-1].end + (WEEKS[-1].end - WEEKS[-1].start)))


def interactions(seed: int = 0, rows: int = 600, integer_ids: bool = False) -> InteractionLog:
    """A small log with a real bias per item."""
    random = np.random.default_rng(seed)
    item = random.integers(0, 12, rows)
    logit = random.normal(0, 1, rows)
    label = random.random(rows) < 1 / (1 + np.exp(-(logit + (item - 6) / 5)))
    ids: Any = item if integer_ids else [f"item-{k}" for k in item]
    columns = {"item_id": ids, "label": label.astype(np.int64), "logit": logit}
    return InteractionLog.from_table(pa.table(columns | {"event_time": np.arange(float(rows))}))


def parameter_set(
    directory: Path,
    *,
    method: str = "slc",
    seed: int = 0,
    window: Window = WEEKS[0],
    integer_ids: bool = False,
) -> Path:
    """Fit a method and write its parameter set."""
    fitted: ParameterSet = fit(method, interactions(seed, integer_ids=integer_ids))
    fitted.with_provenance(deployment="demo", window=window).write(directory)
    return directory


def publication(parameters: Path, **changes: Any) -> Publication:
    """A publication of week 0 with the verdict promote and the given changes."""
    values: dict[str, Any] = {
        "deployment": "demo",
        "window": WEEKS[0],
        "method": "slc",
        "parameters": parameters,
        "verdict": {"verdict": "promote", "sentence": "better on every fold", "reasons": []},
        "metrics": {"auc": 0.71, "nll": 0.55, "confirm": {"auc": 0.70, "ece": None}},
        "input_digest": "a" * 64,
        "config_digest": "c" * 64,
        "code_version": "1",
    }
    values |= changes
    evaluation = {EVALUATION: {str(values["window"]): values["input_digest"]}}
    values["data"] = evaluation | values.get("data", {})
    return Publication(**values)


def installation_in(
    home: Path, tracking_uri: str | None = None, ledger_url: str | None = None
) -> Installation:
    """An installation under one directory."""
    return Installation(
        home=home,
        deployments_file=home / "deployments.yaml",
        tracking_uri=tracking_uri or f"sqlite:///{home}/mlflow/mlflow.db",
        ledger_url=ledger_url or f"sqlite:///{home}/ledger.db",
        artifact_root=(home / "mlflow" / "artifacts").as_uri(),
    )


def copy_home(kept: Path, home: Path) -> None:
    """Copy a home with published versions, which is much faster than publishing; MLflow's paths follow it."""
    shutil.copytree(kept, home, dirs_exist_ok=True)
    (path,) = home.rglob("mlflow.db")
    with closing(sqlite3.connect(path)) as database, database:
        texts = database.execute(
            "SELECT m.name, p.name FROM sqlite_master m, pragma_table_info(m.name) p "
            "WHERE m.type = 'table' AND (p.type LIKE 'VARCHAR%' OR p.type = 'TEXT') AND "
            "(p.name LIKE '%location%' OR p.name LIKE '%uri%' OR p.name LIKE '%source%' OR p.name = 'value')"
        ).fetchall()
        for table, column in texts:
            found = f'"{table}" SET "{column}" = replace("{column}", ?, ?) WHERE instr("{column}", ?)'
            database.execute(f"UPDATE {found}", (str(kept), str(home), str(kept)))


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """Limit the size of files, which simulates a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def files_of(registry: Registry, version: Version) -> Path:
    """The directory of a version's parameter set on this disk."""
    source = registry.client.get_model_version(f"slc-{version.deployment}", str(version.number)).source
    return Path(source.removeprefix("file://")) / "artifacts" / "parameters"


def read_aliases(client: Any, deployment: str) -> dict[str, int]:
    """Alias → version number, from MLflow."""
    names = [model.name for model in client.search_registered_models()]
    name = registered_model(deployment)
    aliases = client.get_registered_model(name).aliases if name in names else {}
    return {alias: int(number) for alias, number in aliases.items()}
