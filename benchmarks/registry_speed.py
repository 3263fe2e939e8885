"""The embedded registry: publish, promote, roll back, and the rollback command as an operator types it.

    python -m benchmarks.registry_speed [--items 1000]

Wall and processor seconds; the MLflow database is migrated before (once per installation, 3 s).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.serving_speed import write_set
from slc_ops.registry import Registry
from tests.registry.factory import WEEKS, installation_in, publication


def timed(name: str, action: Callable[[], object]) -> dict[str, dict[str, float]]:
    """The duration of an action."""
    wall, used = time.perf_counter(), processor_time()
    action()
    return {name: {"wall": round(time.perf_counter() - wall, 3), "cpu": round(processor_time() - used, 3)}}


def processor_time() -> float:
    """CPU time of this process and of its finished children."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def measure(home: Path, items: int) -> dict[str, dict[str, float]]:
    """All steps of two versions."""
    write_set(home / "set", items, "text")
    registry = Registry.open(installation_in(home))
    result = timed("connect", lambda: registry.client)
    for week, name in ((0, "first"), (1, "second")):
        sent = publication(home / "set", window=WEEKS[week])
        result |= timed(f"publish, {name} of the process", lambda sent=sent: registry.publish(sent))
        result |= timed(
            f"promote, {name} of the process",
            lambda week=week: registry.promote("demo", week + 1, actor="benchmark", reason="speed"),
        )
    result |= timed("publish again", lambda: registry.publish(sent))
    result |= timed("verify", lambda: registry.verify("demo"))
    result |= timed("slc-ops rollback", lambda: command(home, "rollback", "--deployment", "demo"))
    return result | timed("slc-ops status", lambda: command(home, "status"))


def command(home: Path, *arguments: str) -> None:
    """A command in its own process, including imports."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MLFLOW_", "SLC_OPS_"))}
    call = [sys.executable, "-c", "from slc_ops.cli import main; main()", *arguments]
    subprocess.run(call, check=True, env=env | {"SLC_OPS_HOME": str(home)}, stdout=subprocess.DEVNULL)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--items", type=int, default=1000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="slc-registry-") as directory:
        home = Path(directory)
        (home / "mlflow").mkdir()
        code = "import sys; from slc_ops.base.mlflow_client import connect; "
        code += "connect(sys.argv[1]).search_experiments()"
        subprocess.run([sys.executable, "-c", code, installation_in(home).tracking_uri], check=True)
        print(json.dumps(measure(home, given.items), indent=2))


if __name__ == "__main__":
    main()
