"""Would it have done harm?  `slc-ops replay` over real logs and over what can go wrong with them.

    python benchmarks/harm_replay.py --data DIR [--logs flights,films] [--variants whole,gap] [--json FILE]

DIR keeps what is fetched, and holds ``as17_dkt.{calibration,test}.parquet`` where ``pupils`` is asked for.
Every log of :mod:`benchmarks.real_logs` is written as a lake and replayed by the command line with the
deployment's default methods. Large logs keep the users whose hash is low, about ``--rows`` a window. The
table says, as means over all windows with rows and over their rows: NLL of what was served minus the frozen
model's, minus weekly Platt's; the share of ``slc_eb``'s gain over Platt that was served, where it gains more
than 0.002; and for how many windows an item method served.
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
    """The rows of so many users that a window has ``most`` of them on average."""
    windows = (rows["event_time"].max() - rows["event_time"].min()) / pd.Timedelta(days=days)
    share = most * max(windows, 1.0) / len(rows)
    if share >= 1:
        return rows
    low = pd.util.hash_array(rows["user_id"].astype(str).to_numpy(object)) < share * 2**64
    return rows[low]


def replayed(rows: pd.DataFrame, days: int, methods: str | None) -> dict[str, Any]:
    """What the command says of one log."""
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
        environment = {**os.environ, "SLC_OPS_HOME": home, "SLC_OPS_DEPLOYMENTS": f"{home}/deployments.yaml"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr.strip().splitlines()[-1])
        found: dict[str, Any] = json.loads((Path(home) / "found.json").read_text())
    return found


def main() -> None:
    """Replay what is asked for and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--logs", default=",".join(LOGS))
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--methods", help="instead of the default list")
    parser.add_argument("--rows", type=int, default=4000, help="of a window, at most and on average")
    parser.add_argument("--json", type=Path, help="write every replay here")
    asked = parser.parse_args()
    everything: dict[str, Any] = {}
    print(FORM.format(*TITLES))
    for name in asked.logs.split(","):
        make, days = LOGS[name]
        rows = some_users(in_contract(make(asked.data)), days, asked.rows)
        for variant in asked.variants.split(","):
            found = replayed(in_contract(VARIANTS[variant](rows, days)), days, asked.methods)
            everything[f"{name}/{variant}"] = found
            print(line(f"{name}/{variant}", found), flush=True)
    if asked.json is not None:
        asked.json.write_text(json.dumps(everything, indent=1))


TITLES = ("log", "rows", "windows", "− frozen", "by row", "− Platt", "by row", "kept", "item", "stopped")
FORM = "{:24}{:>9}{:>8}{:>10}{:>9}{:>10}{:>9}{:>7}{:>6}{:>9}"


def line(name: str, found: dict[str, Any]) -> str:
    """One row of the table: means over windows, and over rows beside them."""
    if "served" not in found["against"].get("base", {}):
        return f"{name:24}no window could be scored"
    frozen, platt = found["against"]["base"]["served"], found["against"]["platt"]["served"]
    figures = [f"{each[kind]:+.4f}" for each in (frozen, platt) for kind in ("mean", "row_weighted")]
    gain = found["against"]["platt"].get("slc_eb", {}).get("mean", 0.0)
    kept = platt["mean"] / gain if gain < -0.002 else None
    item = sum(each["served"] not in PLAIN for each in found["windows"])
    rows = sum(each.get("rows") or 0 for each in found["windows"])
    share = "" if kept is None else f"{kept:.0%}"
    return FORM.format(name, rows, frozen["windows"], *figures, share, item, len(found["stopped"]))


if __name__ == "__main__":
    main()
