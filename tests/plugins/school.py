"""Deployments for the page: recorded in a real ledger, with the files of their refreshes."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from slc_ops.base.files import read_json
from slc_ops.base.window import WEEK, Window
from slc_ops.evidence.detectability import detectability, write_detectability
from slc_ops.methods import fit
from slc_ops.refresh.files import RefreshFiles
from slc_ops.refresh.versions import Registered, record_version
from slc_ops.registry import Registry, Version
from slc_ops.rows.interactions import InteractionLog
from slc_ops.settings.environment import Installation
from tests.evidence.worlds import evidence_files
from tests.refresh.school import NEWEST, SIXTH

FIRST = Window.parse("2026-01-05/2026-01-12")
EVIL = "<script>alert('item')</script>"
PNG = b"\x89PNG of a figure"


VALIDATED = Path()
"""The windows of a real deployment: the sixth week passed, the newest was stopped. The fixtures set it."""


def window(week: int) -> Window:
    """The window of a week, counted from 0."""
    return Window(FIRST.start + week * WEEK, FIRST.end + week * WEEK)


def publish(
    installation: Installation, name: str, week: int, *, verdict: str = "promote", items: int = 4
) -> Version:
    """Record a version in the ledger and write the files of its refresh."""
    ledger = Registry.open(installation).ledger
    number = len(ledger.versions(name)) + 1
    version = Version(
        deployment=name,
        number=number,
        method="slc",
        window=window(week),
        verdict=verdict,
        metrics=metrics(week),
        run_id=f"run-{name}-{number}",
        key=f"{name}-{number}",
        published_at=datetime(2026, 4, 1, tzinfo=UTC),
    )
    ledger.record(version)
    refresh = installation.refreshes(name) / version.window.key / f"{number:016x}"
    decided = Registered(number, "decided", "slc", "parameters", version.run_id, "v")
    record_version(RefreshFiles(refresh), decided)
    said = {"verdict": verdict, "sentence": f"{verdict} it & its <b>reasons</b>."}
    write(refresh / "verdict.json", evidence_files()[1] | said)
    if items:
        write_items(refresh, items)
    (refresh / "report" / "figures").mkdir(parents=True)
    (refresh / "report" / "figures" / "series.png").write_bytes(PNG)
    (refresh / "report" / "report.html").write_text(f"<h1>Report of version {number}</h1>")
    docs = validate(installation, name, week, SIXTH)
    (docs / "validation.html").write_text(f"<h1>Validation of {version.window}</h1>")
    return version


def make_champion(installation: Installation, version: Version, actor: str = "ann") -> None:
    """Make a version champion in the ledger."""
    ledger = Registry.open(installation).ledger
    ledger.advance(
        ledger.head(version.deployment),
        version,
        kind="promotion",
        actor=actor,
        reason="better <i>everywhere</i>",
    )


def metrics(week: int) -> dict[str, Any]:
    """A version's figures."""
    gain = {"estimate": 0.02 + week / 1000, "low": 0.015, "high": 0.03}
    return {
        "auc": 0.78 + week / 100,
        "nll": 0.55,
        "platt_auc": 0.76 + week / 100,
        "platt_nll": 0.57,
        "vs_platt": {"auc": gain, "nll": {"estimate": -0.02, "low": -0.03, "high": -0.01}},
        "served": {
            "method": "slc",
            "version": "1",
            "auc": 0.77 + week / 100,
            "nll": 0.56,
            "vs_platt": {
                "auc": {"estimate": 0.01, "low": 0.0, "high": 0.02},
                "nll": {"estimate": -0.01, "low": -0.02, "high": 0.0},
            },
            "vs_base": {
                "auc": {"estimate": 0.01, "low": 0.0, "high": 0.02},
                "nll": {"estimate": -0.05, "low": -0.06, "high": -0.04},
            },
        },
    }


def write_items(refresh: Path, count: int, *, method: str = "slc", integers: bool = False) -> None:
    """Parameters and detectability of a refresh; the last item's name contains a script."""
    random = np.random.default_rng(count)
    item = np.concatenate([np.arange(count), random.integers(0, count, min(20 * count, 1_000_000))])
    names = np.array([f"item-{k:04d}" for k in range(count - 1)] + [EVIL])
    table = {
        "item_id": item if integers else names[item],
        "label": random.integers(0, 2, len(item)),
        "logit": random.normal(0, 1, len(item)),
        "event_time": np.arange(float(len(item))),
    }
    log = InteractionLog.from_table(pa.table(table))
    fit(method, log).write(refresh / "parameters")
    write_detectability(detectability(log), refresh / "detectability")


def stop(installation: Installation, name: str, week: int) -> None:
    """Let validation stop a week."""
    validate(installation, name, week, NEWEST)


def validate(installation: Installation, name: str, week: int, real: Window) -> Path:
    """Store the validation of a real window as that of a week; return its directory."""
    docs = installation.windows(name) / window(week).key
    found = read_json(VALIDATED / real.key / "validation.json")
    write(docs / "validation.json", {**found, "window": window(week).as_dict()})
    return docs


def write(path: Path, value: Any) -> None:
    """A JSON file with its directories."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
