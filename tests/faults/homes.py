"""Homes with one small deployment, and the command line run on them in a separate process."""

import hashlib
import json
import os
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slc_ops.base.files import SEAL
from slc_ops.base.window import Window
from slc_ops.registry import Registry
from slc_ops.settings.environment import Installation
from tests.registry.factory import installation_in, read_aliases

ROOT = Path(__file__).parents[2]
BEFORE = Window.parse("2026-02-09/2026-02-16")
NEWEST = Window.parse("2026-02-16/2026-02-23")
REFRESH = ("refresh", "--deployment", "school", "--window")
TEMPORARY = re.compile(r"^\..*\.[0-9a-f]{8}(\..*)?$")  # the temporary names of slc_ops.base.files


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    code: int
    out: str
    err: str

    def refused(self) -> bool:
        """Assert exit code 2 and one line with the reason; return the line."""
        last = self.err.strip().splitlines()[-1:]
        return (
            self.code == 2 and "Traceback" not in self.err and last != [] and last[0].startswith("slc-ops:")
        )


def put_back(kept: Path, home: Path) -> Path:
    """Restore a stored home. Plans and MLflow contain absolute paths, so it returns to the same path."""
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(kept, home)
    return home


def environment(home: Path, code: Path = ROOT, **more: str) -> dict[str, str]:
    """The environment of a process on a home, without the settings of this process."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLC_OPS", "MLFLOW"))}
    own = {"SLC_OPS_HOME": str(home), "SLC_OPS_DEPLOYMENTS": str(home / "deployments.yaml")}
    own["MLFLOW_TRACKING_URI"] = f"sqlite:///{home}/mlflow/mlflow.db"
    return kept | own | {"PYTHONPATH": str(code), "PYTHONWARNINGS": "ignore"} | more


def command(*arguments: str) -> list[str]:
    """A command line in a fresh interpreter."""
    return [sys.executable, "-c", "from slc_ops.cli import main; main()", *arguments]


def start(home: Path, *arguments: str, code: Path = ROOT, **more: str) -> subprocess.Popen[str]:
    """Start a command; it leads a process group of its own."""
    return subprocess.Popen(
        command(*arguments),
        env=environment(home, code, **more),
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(home: Path, *arguments: str, largest_file: int | None = None, **more: Any) -> Ended:
    """Run a command to its end; ``largest_file`` simulates a full disk."""
    process = start(home, *arguments, **more)
    if largest_file is not None:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (largest_file, largest_file))
    return ended(process)


def ended(process: subprocess.Popen[str], timeout: float = 300) -> Ended:
    """Wait for a process."""
    out, err = process.communicate(timeout=timeout)
    return Ended(process.returncode, out, err)


def kill(process: subprocess.Popen[str]) -> bool:
    """Kill a command and its children with SIGKILL; return whether it was still running."""
    running = process.poll() is None
    if running:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    return running


def installation_of(home: Path) -> Installation:
    """The installation in a home."""
    return installation_in(home)


def the_refresh(home: Path, window: Window) -> Path:
    """The directory of a week's only refresh."""
    (plan,) = (home / "refreshes" / "school" / window.key).glob("*/plan.json")
    return plan.parent


def parameter_bytes(home: Path, window: Window = NEWEST) -> dict[str, str]:
    """The digests of the parameter files of a week's version."""
    (version,) = json.loads((the_refresh(home, window) / "versions.json").read_text())["versions"]
    # Not by MLflow's client: it keeps a database open that may have been restored since.
    with closing(sqlite3.connect(home / "mlflow" / "mlflow.db")) as database:
        (source,) = database.execute(
            "SELECT source FROM model_versions WHERE version = ?", [version["number"]]
        ).fetchone()
    directory = Path(source.removeprefix("file://")) / "artifacts" / "parameters"
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(directory.iterdir())}


def findings(home: Path, window: Window = NEWEST) -> dict[str, Any]:
    """The results of a refresh, without durations and without the seal that covers them."""
    found = {}
    for name in ("backtest.json", "verdict.json"):
        found[name] = _lasting(json.loads((the_refresh(home, window) / name).read_text()))
    return found


def _lasting(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _lasting(v) for k, v in value.items() if k not in ("seconds_fit", SEAL)}
    return [_lasting(each) for each in value] if isinstance(value, list) else value


def temporary_files(home: Path) -> list[str]:
    """Temporary files and directories that a step left behind."""
    return [str(path.relative_to(home)) for path in home.rglob("*") if TEMPORARY.match(path.name)]


def check_one_version(home: Path) -> None:
    """One version, one champion, one line of history, and nothing to repair."""
    registered = registered_in(home)
    assert (registered["versions"], registered["history"], registered["findings"]) == (1, [1], [])


def registered_in(home: Path) -> dict[str, Any]:
    """The registry of a home, read by a separate process. MLflow keeps connections open as long as a process
    lives, and all homes have the same path.
    """
    asked = [sys.executable, "-m", "tests.faults.homes", str(home)]
    answer = subprocess.run(asked, env=environment(home), capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return found


def main(home: str) -> None:
    """Print the contents of a home's registry."""
    registry = Registry.open(installation_of(Path(home)))
    versions = registry.client.search_model_versions("name='slc-school'")
    runs = [registry.client.get_run(version.run_id) for version in versions]
    champion = registry.champion("school")
    found = {
        "versions": len(versions),
        "codes": sorted({run.data.params["code_version"] for run in runs}),
        "ledger": len(registry.ledger.versions("school")),
        "history": [move.to_version for move in registry.history("school")],
        "champion": None if champion is None else champion.number,
        "alias": read_aliases(registry.client, "school").get("champion"),
        "findings": [finding.sentence for finding in registry.verify("school")],
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
