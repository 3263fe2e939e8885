"""Do two commits give the same parameters, verdicts and metrics?  scripts/same_results.py BEFORE [AFTER]

Both commits run in separate work trees, in this interpreter's environment: a simulated lake is refreshed for
two weeks with every method, and every method is fitted and compared on a pair of files (with --data also on
each NAME.calibration.parquet and NAME.test.parquet of a folder; with --lake FOLDER START END the windows of a
lake are replayed, too, with the default methods). Expected differences (names of code, times, paths, the
schema of parameter sets) are ignored; everything else must be equal: texts and parameters to the last bit,
other numbers within 1e-9. Exits with 0 if it is, otherwise with 1.
"""

import argparse
import hashlib
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[1]
MAY_DIFFER = {
    "code_version", "config_digest", "seconds_fit", "run_id", "report", "tracking_uri", "calibration", "test",
    "warnings", "version", "rules", "plan", "params_digest", "sealed_digest", "champion/digest",
}  # fmt: skip
METHODS = (
    "base,platt,platt_eb,temperature,isotonic,histogram,platt_time,rescal,rescal_iso,naive,"
    "ridge,slc,slc_t,slc_iso,slc_eb,slc_mix"
)


def main() -> int:
    """Run both commits and compare; returns the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before")
    parser.add_argument("after", nargs="?", default="HEAD")
    parser.add_argument(
        "--data", type=Path, help="folder with NAME.calibration.parquet and NAME.test.parquet"
    )
    parser.add_argument("--lake", nargs=3, metavar=("FOLDER", "START", "END"), help="windows to replay")
    given = parser.parse_args()
    data = given.data.resolve() if given.data else None
    lake = (Path(given.lake[0]).resolve(), *given.lake[1:]) if given.lake else None
    with tempfile.TemporaryDirectory(prefix="slc-same-") as scratch:
        found = [results(commit, Path(scratch), data, lake) for commit in (given.before, given.after)]
    names = sorted(found[0] | found[1])
    differing = [name for name in names if not same(found[0].get(name), found[1].get(name))]
    print(f"{len(found[0])} results before, {len(found[1])} after, {len(differing)} differ")
    for name in differing:
        print(f"  {name}: {str(found[0].get(name))[:60]} | {str(found[1].get(name))[:60]}")
    return 1 if differing else 0


def same(one: Any, other: Any) -> bool:
    """Equal; numbers within 1e-9."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def results(commit: str, scratch: Path, data: Path | None, lake: Any) -> dict[str, Any]:
    """All results of a commit, by name."""
    tree = scratch / f"tree-{len(list(scratch.iterdir()))}"
    subprocess.run(["git", "-C", ROOT, "worktree", "add", "--detach", "-q", tree, commit], check=True)
    try:
        return dict(_all(tree, scratch / f"{tree.name}-out", data, lake))
    finally:
        subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", tree], check=True)


def _all(tree: Path, out: Path, data: Path | None, replayed: Any) -> Iterator[tuple[str, Any]]:
    out.mkdir()
    lake = out / "lake"
    entry = {"source": {"kind": "lake", "path": str(lake)}, "methods": METHODS.split(","), "gate": "auto"}
    # JSON is YAML, too.
    (out / "deployments.yaml").write_text(json.dumps({"deployments": {"demo": entry}}))
    run = _runner(tree, out)
    run("simulate", "--out", lake, "--weeks", 11, "--users", 600, "--items", 150, "--rows-per-week", 6000)
    for window in ("2026-03-09/2026-03-16", "2026-03-16/2026-03-23"):
        run("refresh", "--deployment", "demo", "--window", window)
    for number, refresh in enumerate(
        sorted((out / "home" / "refreshes" / "demo").glob("20*/*/verdict.json"))
    ):
        for name in ("verdict.json", "backtest.json", "detectability/detectability.json"):
            yield from _flat(f"refresh {number}/{name}", json.loads((refresh.parent / name).read_text()))
        yield from _parameters(f"refresh {number}", refresh.parent / "parameters")
    weeks = sorted(path for path in lake.rglob("*.parquet") if path.name != "truth.parquet")
    pairs = {"demo": (weeks[-2], weeks[-1])}
    for calibration in sorted(data.glob("*.calibration.parquet")) if data else ():
        name = calibration.name.removesuffix(".calibration.parquet")
        pairs[name] = (calibration, calibration.with_name(f"{name}.test.parquet"))
    for name, (calibration, test) in pairs.items():
        run("compare", "--calibration", calibration, "--test", test, "--json", out / f"{name}.json")
        yield from _flat(f"compare {name}", json.loads((out / f"{name}.json").read_text()))
        for method in METHODS.split(","):
            target = out / f"{name}-{method}"
            run("fit", "--input", calibration, "--method", method, "--out", target)
            yield from _parameters(f"fit {name} {method}", target)
    if replayed:
        folder, start, end = replayed
        source = ("--deployment", "log", "--lake", folder, "--from", start, "--to", end)
        run("replay", *source, "--json", out / "replay.json", "--out", out / "replay")
        yield from _flat("replay", json.loads((out / "replay.json").read_text()))


def _runner(tree: Path, out: Path) -> Any:
    home = out / "home"
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("SLC_OPS", "MLFLOW"))
    }
    environment |= {"PYTHONPATH": str(tree), "SLC_OPS_HOME": str(home)}
    environment |= {"SLC_OPS_DEPLOYMENTS": str(out / "deployments.yaml")}

    def run(*arguments: object) -> None:
        command = [sys.executable, "-c", "from slc_ops.cli import main; main()", *map(str, arguments)]
        done = subprocess.run(command, cwd=out, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} in {tree}:\n{done.stderr}")

    return run


def _parameters(name: str, directory: Path) -> Iterator[tuple[str, Any]]:
    """A parameter set by content, for any schema; golden vectors follow from the rest."""
    params = json.loads((directory / "params.json").read_text())
    of_items = params.pop("effects", {}).get("item", {})
    for key in ("prior_var", "time_edges"):
        params.setdefault(key, of_items.get(key))
    for key in ("schema_version", "items_digest", "golden_digest", "logit_mean"):
        params.pop(key, None)
    yield from _flat(f"{name}/params.json", params)
    for file in sorted(directory.glob("*.parquet")):
        table = pq.read_table(file)
        for column in table.column_names:
            called = {"item_id": "id"}.get(column, column)
            values = hashlib.sha256(repr(table[column].to_pylist()).encode()).hexdigest()
            yield f"{name}/{file.stem.removesuffix('s')}/{called}", values


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if not {key, f"{name.rpartition('/')[2]}/{key}"} & MAY_DIFFER:
                yield from _flat(f"{name}/{key}", inner)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for number, inner in enumerate(value):
            yield from _flat(f"{name}/{number}", inner)
    else:
        yield name, value


if __name__ == "__main__":
    sys.exit(main())
