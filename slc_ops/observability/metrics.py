"""Prometheus metrics of refreshes and champions, computed from the disk and the ledger.

Nothing is counted in memory: any process can answer, and a restart loses nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily

from slc_ops import __version__
from slc_ops.base.errors import RegistryError
from slc_ops.base.window import Window
from slc_ops.observability.stored import (
    newest_audit,
    newest_steps,
    newest_validation,
    newest_with,
    refresh_of,
)
from slc_ops.observability.troubles import free_bytes
from slc_ops.refresh.versions import Decided, held_in_a_row, outcomes
from slc_ops.settings.deployments_file import read_deployments
from slc_ops.settings.environment import Installation, ServiceVariables

if TYPE_CHECKING:
    from slc_ops.registry import Version

VERDICTS = ("promote", "hold", "reject")
HELP = {
    "slc_ops_info": "The version of slc_ops that answers.",
    "slc_ops_broken_deployments": "Entries of the deployments file that cannot be used.",
    "slc_ops_refresh_interval_seconds": "Time between scheduled refreshes.",
    "slc_ops_disk_free_bytes": "Bytes that are free below SLC_OPS_HOME.",
    "slc_ops_disk_least_bytes": "Minimum of free bytes (SLC_OPS_MIN_FREE_MB).",
    "slc_ops_refresh_duration_seconds": "From the first step to the registered version, of the newest "
    "refreshed window.",
    "slc_ops_refresh_finished_timestamp_seconds": "When the newest window's refresh was finished.",
    "slc_ops_step_duration_seconds": "Duration of each step, of the newest refreshed window.",
    "slc_ops_step_failed": "1 if the last attempt of a step failed.",
    "slc_ops_window_rows": "Rows of the newest validated window.",
    "slc_ops_window_quarantined_rows": "Rows of the newest validated window that were quarantined.",
    "slc_ops_window_quarantined_share": "Their share of its rows.",
    "slc_ops_window_failed_share": "Share of its rows that fail a check of single rows.",
    "slc_ops_window_stopped": "1 if validation stopped the newest window.",
    "slc_ops_window_end_timestamp_seconds": "End of the newest validated window.",
    "slc_ops_quality": "A method on the newest window, fitted on the windows before it.",
    "slc_ops_gain_over_platt": "Gain over Platt scaling on the same rows; above 0 is better for "
    "every metric.",
    "slc_ops_refreshes": "Refreshes on disk by their verdict.",
    "slc_ops_served_off_share": "Share of rows whose served probability differs from that of their version.",
    "slc_ops_served_rows": "Rows of the newest audited window by the version that served them.",
    "slc_ops_served_stale_rows": "Rows that an older version served after a newer one.",
    "slc_ops_item_coverage": "Share of rows of the newest window with an item known to the champion.",
    "slc_ops_unknown_items": "Items of the newest window unknown to the champion.",
    "slc_ops_ledger_up": "1 if the ledger exists and can be read.",
    "slc_ops_champion_version": "Version number of the champion.",
    "slc_ops_champion_since_timestamp_seconds": "When the champion took over.",
    "slc_ops_champion_age_seconds": "Time since the end of the newest window that the champion "
    "was fitted on.",
    "slc_ops_held_windows": "Newest consecutive windows whose change of champion was held.",
}
"""Every metric, in the order of the output."""


Add = Callable[..., None]
"""Add a metric's value with its labels; the deployment is given."""


class Gauge(GaugeMetricFamily):
    """A metric with a name, a help sentence and one value per set of labels."""

    def add(self, value: float, **labels: str) -> None:
        """Add a value with its labels."""
        self.add_sample(self.name, labels, float(value))

    def as_dict(self) -> dict[str, Any]:
        """Return the name, help and samples as JSON."""
        return {
            "name": self.name,
            "help": self.documentation,
            "samples": [{"labels": sample.labels, "value": sample.value} for sample in self.samples],
        }


class Gauges(dict[str, Gauge]):
    """All metrics by their name in :data:`HELP`."""

    def __init__(self) -> None:
        super().__init__((name, Gauge(name, text)) for name, text in HELP.items())

    def add(self, name: str, value: float, **labels: str) -> None:
        """Add a value to a metric."""
        self[name].add(value, **labels)


def collect(installation: Installation, now: datetime) -> list[Gauge]:
    """Return every metric at the time ``now``."""
    found = Gauges()
    deployments, broken = read_deployments(installation.deployments_file)
    names = sorted(deployments)
    found.add("slc_ops_info", 1, version=__version__)
    found.add("slc_ops_broken_deployments", len(broken))
    found.add("slc_ops_disk_free_bytes", free_bytes(installation))
    found.add("slc_ops_disk_least_bytes", ServiceVariables.read().min_free_mb << 20)
    for name in names:
        every = deployments[name].cadence.days * deployments[name].refresh_every
        add = partial(found.add, deployment=name)
        add("slc_ops_refresh_interval_seconds", 86400 * every)
        _refresh_metrics(add, installation, name)
        _window_metrics(add, installation, name)
        _served_metrics(add, installation, name)
    decided = {name: list(outcomes(installation.refreshes(name))) for name in names}
    for name in names:
        _quality_metrics(partial(found.add, deployment=name), decided[name])
    _champion_metrics(found, installation, decided, now)
    return list(found.values())


class WithValues(CollectorRegistry):
    """A registry that reads the metrics at every scrape and omits those without values."""

    def __init__(self, read: Callable[[], Iterable[Gauge]]) -> None:
        super().__init__()
        self.read = read

    def collect(self) -> Iterator[Gauge]:
        """Return the metrics that have values."""
        return (metric for metric in self.read() if metric.samples)


def render(metrics: Iterable[Gauge]) -> str:
    r"""Return the metrics in Prometheus' text format.

    >>> rows = Gauge("slc_ops_window_rows", "Rows of the newest window.")
    >>> rows.add(12, deployment='al"gebra')
    >>> print(render([rows]), end="")
    # HELP slc_ops_window_rows Rows of the newest window.
    # TYPE slc_ops_window_rows gauge
    slc_ops_window_rows{deployment="al\"gebra"} 12.0
    """
    return generate_latest(WithValues(lambda: metrics)).decode()


def _refresh_metrics(add: Add, installation: Installation, name: str) -> None:
    """Add the steps of the newest refreshed window."""
    records = {record["step"]: record for record in newest_steps(installation, name)[1]}
    for step, record in records.items():
        seconds = record["ended"] - record["started"]
        add("slc_ops_step_duration_seconds", seconds, step=step)
        add("slc_ops_step_failed", record["outcome"] == "failed", step=step)
    if (whole := _wall_clock(records)) is not None:
        add("slc_ops_refresh_duration_seconds", whole)
        add("slc_ops_refresh_finished_timestamp_seconds", records["publish"]["ended"])


def _wall_clock(records: dict[str, dict[str, Any]]) -> float | None:
    """Return the seconds from the extraction's start to the publication's end; None if unfinished."""
    first, last = records.get("extract"), records.get("publish")
    if first is None or last is None or last["outcome"] != "finished" or last["ended"] < first["started"]:
        return None
    return float(last["ended"] - first["started"])


def _window_metrics(add: Add, installation: Installation, name: str) -> None:
    """Add the rows of the newest validated window."""
    _, result = newest_validation(installation, name)
    if not result:
        return
    rows, quarantined = result["rows"], result["quarantined"]
    add("slc_ops_window_rows", rows)
    add("slc_ops_window_quarantined_rows", quarantined)
    if rows:
        add("slc_ops_window_quarantined_share", quarantined / rows)
        for check, count in result.get("statistics", {}).get("failed", {}).items():
            add("slc_ops_window_failed_share", count / rows, check=check)
    add("slc_ops_window_stopped", result["status"] == "stopped")
    add("slc_ops_window_end_timestamp_seconds", Window.from_dict(result["window"]).end.timestamp())


def _champion_metrics(
    found: Gauges, installation: Installation, decided: Mapping[str, Decided], now: datetime
) -> None:
    """Add the champions of the ledger; if it fails, only ``slc_ops_ledger_up`` has a value."""
    from slc_ops.registry import Registry
    from slc_ops.registry.overview import glance

    try:
        registry = Registry.open(installation, create=False)
        for name, each in {name: glance(registry.ledger, name) for name in decided}.items():
            add, champion = partial(found.add, deployment=name), each.champion
            if champion is not None and each.last is not None:
                add("slc_ops_champion_version", champion.number)
                add("slc_ops_champion_since_timestamp_seconds", each.last.at.timestamp())
                add("slc_ops_champion_age_seconds", (now - champion.window.end).total_seconds())
                if (covered := _coverage(installation, champion)) is not None:
                    add("slc_ops_item_coverage", covered[0])
                    add("slc_ops_unknown_items", covered[1])
            add("slc_ops_held_windows", held_in_a_row(decided[name], each.line))
        found.add("slc_ops_ledger_up", registry.ledger.database.present)
    except RegistryError:
        found.add("slc_ops_ledger_up", 0)


def _quality_metrics(add: Add, decided: Decided) -> None:
    """Add every metric by method on the newest window with evidence, and the number of verdicts."""
    from slc_ops.evidence.metrics import METRICS, paired_metrics

    count = Counter(outcome.verdict for window in decided for _, outcome in window)
    for verdict in VERDICTS:
        add("slc_ops_refreshes", count[verdict], verdict=verdict)
    if not decided:
        return
    newest = decided[-1][-1][1]
    for method, figures in newest.quality.items():
        for metric in METRICS:
            if metric in figures:
                add("slc_ops_quality", figures[metric], method=method, metric=metric)
    for method, intervals in newest.gains.items():
        for each in paired_metrics() if method != "platt" else ():
            for bound, number in _gains(intervals.get(each.name), each.better).items():
                add("slc_ops_gain_over_platt", number, method=method, metric=each.name, bound=bound)


def _served_metrics(add: Add, installation: Installation, name: str) -> None:
    """Add the newest audit's results, if logs contain the served probabilities."""
    _, audit = newest_audit(installation, name)
    if not audit:
        return
    by_version: Counter[int] = Counter()
    for each in audit["served"]:
        by_version[each["version"]] += each["rows"]
    add("slc_ops_served_off_share", audit["share"])
    stale = sum(each["rows"] for each in audit["served"] if each["stale"])
    add("slc_ops_served_stale_rows", stale)
    for version, number in sorted(by_version.items()):
        add("slc_ops_served_rows", number, version=str(version))


def _gains(found: dict[str, Any] | None, better: int) -> dict[str, float]:
    """Return the difference and its limits, with the sign changed so that more is better.

    >>> _gains({"estimate": -0.5, "low": -0.75, "high": -0.25}, -1)
    {'estimate': 0.5, 'low': 0.25, 'high': 0.75}
    """
    if found is None or found.get("estimate") is None:
        return {}
    low, high = ("low", "high") if better > 0 else ("high", "low")
    turned = {"estimate": found["estimate"], "low": found.get(low), "high": found.get(high)}
    return {bound: better * number for bound, number in turned.items() if number is not None}


def _coverage(installation: Installation, champion: "Version") -> tuple[float, int] | None:
    """Return the share of rows with a known item and the number of unknown items, or None."""
    import pyarrow.compute as pc

    from slc_ops.base.parquet import read_parquet
    from slc_ops.parameters import effect_file
    from slc_ops.quality.statistics import ITEMS as COUNTED

    newest = newest_with(installation.windows(champion.deployment), COUNTED)
    origin = refresh_of(installation, champion)
    known = None if origin is None else origin.parameters / effect_file("item")
    if newest is None or known is None or not known.exists():
        return None
    rows = read_parquet(newest / COUNTED, ["item_id", "rows"])
    total = pc.sum(rows["rows"]).as_py() or 0
    items = read_parquet(known, ["id"])["id"]
    there = pc.is_in(pc.cast(rows["item_id"], "string"), value_set=pc.cast(items, "string").combine_chunks())
    covered = pc.sum(rows["rows"].filter(there)).as_py() or 0
    return (covered / total if total else 1.0), len(rows) - (pc.sum(there).as_py() or 0)
