"""`slc-ops replay` over real logs, unchanged and with faults: would it have done harm?

    python benchmarks/harm_replay.py --data DIR [--logs flights,films] [--variants whole,gap] [--rows 2000]
                                     [--json FILE] [--before FILE] [--markdown FILE]

DIR caches downloads from PyPI and npm and contains ``as17_dkt.{calibration,test}.parquet`` for the log
``pupils``. Every log of :mod:`benchmarks.real_logs` is written as a lake and replayed by the
command line with the deployment's default methods. Large logs keep the users whose hash is low, about
``--rows`` a window.

The table has, as means over all windows with rows and over their rows: served NLL minus the frozen model's,
and minus weekly Platt's; the share of ``slc_eb``'s gain over Platt that was served, where it
gains more than 0.002; for how many windows an item method served, and how many windows were stopped.
``--json`` stores every replay and runs only missing ones; ``--markdown`` writes the table, compared with the
figures of ``--before``, another ``--json``.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.real_logs import LOGS, VARIANTS, in_contract

PLAIN = {"base", "platt", "platt_eb", "temperature", "isotonic", "histogram", "platt_time"}


def some_users(rows: pd.DataFrame, days: int, most: int) -> pd.DataFrame:
    """The rows of enough users for ``most`` rows per window on average."""
    windows = (rows["event_time"].max() - rows["event_time"].min()) / pd.Timedelta(days=days)
    share = most * max(windows, 1.0) / len(rows)
    if share >= 1:
        return rows
    low = pd.util.hash_array(rows["user_id"].astype(str).to_numpy(object)) < share * 2**64
    return rows[low]


def replayed(
    rows: pd.DataFrame, days: int, methods: str | None, effects: str | None = None
) -> dict[str, Any]:
    """The result of the command for one log."""
    first, last = rows["event_time"].min().normalize(), rows["event_time"].max().normalize()
    if days == 7:
        first, last = (each - pd.Timedelta(days=each.day_of_week) for each in (first, last))
    with TemporaryDirectory() as home:
        lake = Path(home) / "lake"
        lake.mkdir()
        rows.to_parquet(lake / "log.parquet", index=False)
        entry = {"source": {"kind": "lake", "path": str(lake)}, "window": {"days": days}}
        (Path(home) / "deployments.yaml").write_text(json.dumps({"deployments": {"log": entry}}))
        command = [str(Path(sys.executable).with_name("slc-ops")), "replay", "--deployment", "log"]
        command += ["--json", f"{home}/found.json"]
        command += ["--from", f"{first:%Y-%m-%d}", "--to", f"{last + pd.Timedelta(days=days):%Y-%m-%d}"]
        command += ["--methods", methods] if methods else []
        command += ["--effects", effects] if effects else []
        environment = {**os.environ, "SLC_OPS_HOME": home, "SLC_OPS_DEPLOYMENTS": f"{home}/deployments.yaml"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr.strip().splitlines()[-1])
        found: dict[str, Any] = json.loads((Path(home) / "found.json").read_text())
    return found


def main() -> None:
    """Replay the requested logs and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--logs", default=",".join(LOGS))
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--methods", help="instead of the default list")
    parser.add_argument("--effects", help="of slc_mix, instead of the default ones")
    parser.add_argument("--rows", type=int, default=4000, help="of a window, at most and on average")
    parser.add_argument("--json", type=Path, help="keep every replay here, and use those that are there")
    parser.add_argument("--before", type=Path, help="replays of another version, for --markdown")
    parser.add_argument("--markdown", type=Path, help="write the table here")
    asked = parser.parse_args()
    found: dict[str, Any] = kept(asked.json)
    print(FORM.format(*TITLES))
    for name in asked.logs.split(","):
        make, days = LOGS[name]
        missing = [each for each in asked.variants.split(",") if f"{name}/{each}" not in found]
        rows = some_users(in_contract(make(asked.data)), days, asked.rows) if missing else None
        for variant in asked.variants.split(","):
            if variant in missing:
                changed = in_contract(VARIANTS[variant](rows, days))
                found[f"{name}/{variant}"] = figures(replayed(changed, days, asked.methods, asked.effects))
                if asked.json is not None:
                    asked.json.write_text(json.dumps(found, indent=1))
            print(FORM.format(f"{name}/{variant}", *shown(found[f"{name}/{variant}"])), flush=True)
    if asked.markdown is not None:
        asked.markdown.write_text(markdown(found, kept(asked.before)))


def kept(path: Path | None) -> dict[str, Any]:
    """The figures of earlier replays."""
    found: dict[str, Any] = {} if path is None or not path.exists() else json.loads(path.read_text())
    return found


TITLES = ("log", "rows", "windows", "− frozen", "by row", "− Platt", "by row", "kept", "item", "stopped")
FORM = "{:24}{:>9}{:>8}{:>10}{:>9}{:>10}{:>9}{:>7}{:>6}{:>9}"


def figures(found: dict[str, Any]) -> dict[str, Any]:
    """The table row of one replay; None if nothing could be compared, as without any positive label."""
    against, windows = found["against"], found["windows"]
    frozen, platt = (against.get(each, {}).get("served") for each in ("base", "platt"))
    gain = against.get("platt", {}).get("slc_eb", {}).get("mean", 0.0)
    item = [each["served"] not in PLAIN for each in windows]
    return {
        "rows": sum(each.get("rows") or 0 for each in windows),
        "windows": (frozen or {"windows": 0})["windows"],
        "frozen": frozen and frozen["mean"],
        "frozen_by_row": frozen and frozen["row_weighted"],
        "platt": platt and platt["mean"],
        "platt_by_row": platt and platt["row_weighted"],
        "kept": platt["mean"] / gain if platt and gain < -0.002 else None,
        "item": sum(item),
        "stopped": len(found["stopped"]),
    }


def shown(found: dict[str, Any]) -> list[str]:
    """The figures as text."""
    return [
        "–" if value is None else f"{value:.0%}" if name == "kept" else f"{value:+.4f}"
        if isinstance(value, float) else f"{value:,}"
        for name, value in found.items()
    ]  # fmt: skip


def markdown(after: dict[str, Any], before: dict[str, Any]) -> str:
    """The table of all logs, with earlier figures for comparison."""
    names = ("frozen", "platt", "kept", "item", "stopped")
    titles = ["served − frozen", "served − weekly Platt", "kept of `slc_eb`", "item method", "stopped"]
    lines = [f"| log | windows | {' | '.join(titles)} |", "|---|" + "---:|" * (len(titles) + 1)]
    nothing = dict.fromkeys(names)
    for log, now in after.items():
        cells = []
        for name in names:
            pair = [shown({name: each[name]})[0] for each in (before.get(log, nothing), now)]
            cells.append(" → ".join(pair) if log in before and pair[0] != pair[1] else pair[1])
        lines.append(f"| {log.replace('/', ', ')} | {now['windows']} | {' | '.join(cells)} |")
    return "\n".join(lines).replace("-0.", "−0.") + "\n"


if __name__ == "__main__":
    main()
