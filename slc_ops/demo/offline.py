"""``slc-ops demo``: the demo's refresh without Airflow, from the installed package alone."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from slc_ops.base.files import write_text
from slc_ops.demo.home import DEMO, DEMO_WINDOW, DEPLOYMENTS, held, simulate_lake
from slc_ops.settings.deployments import Places

if TYPE_CHECKING:
    from slc_ops.refresh.plan import Plan


def demo_places(home: Path) -> Places:
    """Everything below ``home``; what the environment says about other installations does not matter here."""
    return Places(
        home=home,
        deployments_file=home / "deployments.yaml",
        tracking_uri=f"sqlite:///{home}/mlflow/mlflow.db",
        ledger_url=f"sqlite:///{home}/ledger.db",
        artifact_root=(home / "mlflow" / "artifacts").as_uri(),
    )


def run_demo(home: Path, tell: Callable[[str], None]) -> "tuple[Places, Plan]":
    """Simulate the logs, refresh the newest week, promote; what an earlier run finished is not done again.

    Raises :class:`~slc_ops.base.errors.SettingsError` where ``home`` holds something else.
    """
    from slc_ops.refresh import pipeline

    places = demo_places(home)
    with held(home, "choose an empty directory with --out"):
        if not places.deployments_file.exists():
            write_text(places.deployments_file, DEPLOYMENTS.read_text(encoding="utf-8"))
        simulate_lake(home, tell)
        tell(f"Refreshing {DEMO} for {DEMO_WINDOW} …")
        return places, pipeline.refresh(places, DEMO, DEMO_WINDOW, tell=lambda text: tell(f"  {text}"))
