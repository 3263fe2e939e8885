"""Finding finished refreshes on disk."""

from collections.abc import Iterator

from slc_ops.base.files import read_json
from slc_ops.base.window import Window
from slc_ops.refresh.files import VERSION, RefreshFiles, refreshes_in
from slc_ops.refresh.plan import Plan, read_plan
from slc_ops.settings.deployments import Places


def decided_refreshes(places: Places, deployment: str, window: Window | None = None) -> Iterator[Plan]:
    """The refreshes that reached a verdict, in window order; of one window, oldest verdict first."""
    found = [each for each in refreshes_in(places.refreshes(deployment), window) if each.verdict.exists()]
    for each in sorted(found, key=lambda f: (f.directory.parent.name, f.verdict.stat().st_mtime_ns)):
        yield read_plan(each.plan)


def newest_refresh(places: Places, deployment: str, window: Window | None = None) -> Plan | None:
    """The last decided refresh of a deployment, or of one of its windows."""
    plans = list(decided_refreshes(places, deployment, window))
    return plans[-1] if plans else None


def find_by_run(places: Places, run_id: str) -> Plan | None:
    """The refresh that made an MLflow run."""
    for version in (places.home / "refreshes").glob(f"*/*/*/{VERSION}"):
        if read_json(version).get("run_id") == run_id:
            return read_plan(RefreshFiles(version.parent).plan)
    return None
