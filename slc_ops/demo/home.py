"""The demo's directory and logs, with Airflow (``make run``) or without (``slc-ops demo``)."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from slc_ops.base.errors import SettingsError
from slc_ops.base.files import make_directory, read_json, write_json, write_text
from slc_ops.base.window import Window
from slc_ops.settings.environment import Installation

if TYPE_CHECKING:
    from slc_ops.refresh.plan import Plan

LAYOUT = 1
"""Version of the directory's layout; increment it if older layouts become unreadable."""

DEMO = "demo"
DEMO_START = "2026-01-05"
DEMO_WEEKS = 12
DEMO_WINDOW = Window.parse("2026-03-23/2026-03-30")
DEPLOYMENTS = Path(__file__).with_name("deployments.yaml")
"""The deployments file of the demo; ``dags/deployments.yaml`` of a checkout starts with the same text."""


@contextmanager
def held(home: Path, advice: str) -> Iterator[None]:
    """Lock the directory for one process; refuse another layout with ``advice``."""
    make_directory(home)
    layout = home / "layout.json"
    found = read_json(layout).get("layout") if layout.exists() else None
    if found is None and any(path.name != ".lock" for path in home.iterdir()):
        raise SettingsError(f"{home} was written by an unknown version of slc_ops; {advice}")
    if found not in (None, LAYOUT):
        what = f"another version (layout {found}, this one is {LAYOUT})"
        raise SettingsError(f"{home} was written by {what} of slc_ops; {advice}")
    home.chmod(0o700)  # earlier versions created it world-readable
    with (home / ".lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            raise SettingsError(
                f"process {lock.read().strip() or '?'} already uses {home}; "
                "wait for it or stop it, then run this again"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        write_json(layout, {"layout": LAYOUT})
        yield


def simulate_lake(home: Path, tell: Callable[[str], None]) -> None:
    """Write the demo's twelve weeks of production logs, unless they exist."""
    lake = home / "lake" / DEMO
    if (lake / "manifest.json").exists():
        return
    from slc_ops.demo.simulate import simulate

    tell(f"Simulating {DEMO_WEEKS} weeks of a learning platform's logs …")
    shutil.rmtree(lake, ignore_errors=True)
    simulate(lake, weeks=DEMO_WEEKS, start=DEMO_START)


def demo_installation(home: Path) -> Installation:
    """Return an installation below ``home``; the environment's settings are ignored."""
    return Installation(
        home=home,
        deployments_file=home / "deployments.yaml",
        tracking_uri=f"sqlite:///{home}/mlflow/mlflow.db",
        ledger_url=f"sqlite:///{home}/ledger.db",
        artifact_root=(home / "mlflow" / "artifacts").as_uri(),
    )


def run_demo(home: Path, tell: Callable[[str], None]) -> "tuple[Installation, Plan]":
    """Simulate the logs, refresh the newest week, promote; finished steps are not repeated.

    Raises:
        SettingsError: ``home`` holds other files.
    """
    from slc_ops.refresh import pipeline

    installation = demo_installation(home)
    with held(home, "choose an empty directory with --out"):
        if not installation.deployments_file.exists():
            write_text(installation.deployments_file, DEPLOYMENTS.read_text(encoding="utf-8"))
        simulate_lake(home, tell)
        tell(f"Refreshing {DEMO} for {DEMO_WINDOW} …")
        return installation, pipeline.refresh(
            installation, DEMO, DEMO_WINDOW, tell=lambda text: tell(f"  {text}")
        )
