"""Deployments for the page: recorded in a real ledger, with the files of their refreshes."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slc_ops.base.window import WEEK, Window
from slc_ops.refresh.files import RefreshFiles
from slc_ops.refresh.versions import Registered, record_version
from slc_ops.registry import Registry, Version
from slc_ops.settings.environment import Installation
from tests.evidence.worlds import evidence_files

FIRST = Window.parse("2026-01-05/2026-01-12")
EVIL = "<script>alert('item')</script>"
PNG = b"\x89PNG of a figure"


DECISIONS = {
    "kind": "renewal",
    "decision": {
        "current": "slc",
        "method": "slc",
        "statistics": {
            "slc": {
                reference: {
                    "method": "slc", "reference": reference, "windows": 8, "hold_out": False, "mean": mean,
                    "error": 0.001, "freedom": 4.0, "spread": 0.003, "low": mean - 0.003,
                    "high": mean + 0.003,
                    "next_low": mean - 0.009, "next_high": mean + 0.009, "confidence": 0.95,
                }
                for reference, mean in (("platt_eb", -0.012), ("base", -0.05))
            }
        },
    },
    "renewal": {
        "accepted": True, "lasting": False, "lengths": {"link": 0.02, "offsets": 0.08},
        "limit": {"link": 0.5, "offsets": 0.6}, "sentence": "slc moved",
    },
}  # fmt: skip


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
    write(refresh / "verdict.json", evidence_files()[1] | said | DECISIONS)
    if items:
        write_items(refresh, items)
    (refresh / "report" / "figures").mkdir(parents=True)
    (refresh / "report" / "figures" / "series.png").write_bytes(PNG)
    (refresh / "report" / "report.html").write_text(f"<h1>Report of version {number}</h1>")
    docs = installation.windows(name) / version.window.key
    write(docs / "validation.json", {"status": "passed", "findings": []})
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


def write_items(refresh: Path, count: int) -> None:
    """Item tables of a refresh; the last item's name contains a script."""
    names = [f"item-{k:04d}" for k in range(count - 1)] + [EVIL]
    offset = [(-1.0) ** k * (k + 1) / count for k in range(count)]
    table = {
        "id": names,
        "offset": offset,
        "offset_var": [0.04] * count,
        "n_obs": [float(10 * (k + 1)) for k in range(count)],
        "fisher_weight": [2.0] * count,
        "shrinkage": [k / count for k in range(count)],
    }
    drift = {
        "item_id": list(reversed(names)),
        "n_obs": [10] * count,
        "delta_min": [None if k == 0 else k / count for k in range(count)],
        "delta_obs": [k / count for k in range(count)],
        "detectable": [k % 2 == 0 for k in range(count)],
    }
    for part, values in (("parameters", table), ("detectability", drift)):
        (refresh / part).mkdir(parents=True, exist_ok=True)
        rows = pa.table(values)
        if part == "parameters":
            rows = rows.sort_by("id")  # as every parameter set is written
        pq.write_table(rows, refresh / part / ("item.parquet" if part == "parameters" else "items.parquet"))
    write(refresh / "parameters" / "params.json", {"effects": {"item": {"time_edges": None}}})


def stop(installation: Installation, name: str, week: int) -> None:
    """Let validation stop a week."""
    finding = {"severity": "critical", "sentence": "label is 0 or 1"}
    write(
        installation.windows(name) / window(week).key / "validation.json",
        {"status": "stopped", "findings": [finding]},
    )


def write(path: Path, value: Any) -> None:
    """A JSON file with its directories."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
