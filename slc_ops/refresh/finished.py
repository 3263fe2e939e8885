"""Finding finished refreshes on disk."""

from collections.abc import Iterator

from slc_ops.base.files import read_json
from slc_ops.base.window import Window
from slc_ops.refresh.plan import FILE, Plan, read_plan
from slc_ops.settings.deployments import Places


def decided_refreshes(places: Places, deployment: str, window: Window | None = None) -> Iterator[Plan]:
    """The refreshes that reached a verdict, in window order; of one window, oldest verdict first."""
    pattern = f"{window.key if window else '*'}/*/{FILE}"
    found = [path.parent for path in places.refreshes(deployment).glob(pattern)]
    decided = [each for each in found if (each / "verdict.json").exists()]
    for each in sorted(decided, key=lambda d: (d.parent.name, (d / "verdict.json").stat().st_mtime_ns)):
        yield read_plan(each / FILE)


def newest_refresh(places: Places, deployment: str, window: Window | None = None) -> Plan | None:
    """The last decided refresh of a deployment, or of one of its windows."""
    plans = list(decided_refreshes(places, deployment, window))
    return plans[-1] if plans else None


def find_by_run(places: Places, run_id: str) -> Plan | None:
    """The refresh that made an MLflow run."""
    for version in (places.home / "refreshes").glob("*/*/*/version.json"):
        if read_json(version).get("run_id") == run_id:
            return read_plan(version.parent / FILE)
    return None
