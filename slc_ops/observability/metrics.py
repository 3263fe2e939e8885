"""Prometheus metrics of refreshes and champions, computed from the disk and the ledger.

Nothing is counted in memory: any process can answer, and a restart loses nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

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


def collect(installation: Installation, now: datetime) -> list[Gauge]:
    """Return every metric at the time ``now``."""
    info = Gauge("slc_ops_info", "The version of slc_ops that answers.")
    info.add(1, version=__version__)
    deployments, broken = read_deployments(installation.deployments_file)
    wrong = Gauge("slc_ops_broken_deployments", "Entries of the deployments file that cannot be used.")
    wrong.add(len(broken))
    names = sorted(deployments)
    interval = Gauge("slc_ops_refresh_interval_seconds", "Time between scheduled refreshes.")
    for name in names:
        every = deployments[name].cadence.days * deployments[name].refresh_every
        interval.add(86400 * every, deployment=name)
    free = Gauge("slc_ops_disk_free_bytes", "Bytes that are free below SLC_OPS_HOME.")
    least = Gauge("slc_ops_disk_least_bytes", "Minimum of free bytes (SLC_OPS_MIN_FREE_MB).")
    free.add(free_bytes(installation))
    least.add(ServiceVariables.read().min_free_mb << 20)
    decided = {name: list(outcomes(installation.refreshes(name))) for name in names}
    return [
        info,
        wrong,
        interval,
        free,
        least,
        *_refresh_metrics(installation, names),
        *_window_metrics(installation, names),
        *_quality_metrics(decided),
        *_served_metrics(installation, names),
        *_champion_metrics(installation, decided, now),
    ]


class WithValues(Collector):
    """A collector that reads the metrics at every scrape and omits those without values."""

    def __init__(self, read: Callable[[], Iterable[Gauge]]) -> None:
        self.read = read

    def collect(self) -> Iterator[Gauge]:
        """Return the metrics that have values."""
        return (metric for metric in self.read() if metric.samples)


def registry_of(read: Callable[[], Iterable[Gauge]]) -> CollectorRegistry:
    """Return a registry for prometheus_client."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(WithValues(read))
    return registry


def render(metrics: Iterable[Gauge]) -> str:
    r"""Return the metrics in Prometheus' text format.

    >>> rows = Gauge("slc_ops_window_rows", "Rows of the newest window.")
    >>> rows.add(12, deployment='al"gebra')
    >>> print(render([rows]), end="")
    # HELP slc_ops_window_rows Rows of the newest window.
    # TYPE slc_ops_window_rows gauge
    slc_ops_window_rows{deployment="al\"gebra"} 12.0
    """
    return generate_latest(registry_of(lambda: metrics)).decode()


def _refresh_metrics(installation: Installation, names: list[str]) -> list[Gauge]:
    duration = Gauge(
        "slc_ops_refresh_duration_seconds",
        "From the first step to the registered version, of the newest refreshed window.",
    )
    finished = Gauge(
        "slc_ops_refresh_finished_timestamp_seconds", "When the newest window's refresh was finished."
    )
    steps = Gauge("slc_ops_step_duration_seconds", "Duration of each step, of the newest refreshed window.")
    failed = Gauge("slc_ops_step_failed", "1 if the last attempt of a step failed.")
    for name in names:
        records = {record["step"]: record for record in newest_steps(installation, name)[1]}
        for step, record in records.items():
            steps.add(record["ended"] - record["started"], deployment=name, step=step)
            failed.add(record["outcome"] == "failed", deployment=name, step=step)
        if (seconds := _wall_clock(records)) is not None:
            duration.add(seconds, deployment=name)
            finished.add(records["publish"]["ended"], deployment=name)
    return [duration, finished, steps, failed]


def _wall_clock(records: dict[str, dict[str, Any]]) -> float | None:
    """Return the seconds from the extraction's start to the publication's end; None if unfinished."""
    first, last = records.get("extract"), records.get("publish")
    if first is None or last is None or last["outcome"] != "finished" or last["ended"] < first["started"]:
        return None
    return float(last["ended"] - first["started"])


def _window_metrics(installation: Installation, names: list[str]) -> list[Gauge]:
    rows = Gauge("slc_ops_window_rows", "Rows of the newest validated window.")
    quarantined = Gauge(
        "slc_ops_window_quarantined_rows", "Rows of the newest validated window that were quarantined."
    )
    share = Gauge("slc_ops_window_quarantined_share", "Their share of its rows.")
    failing = Gauge("slc_ops_window_failed_share", "Share of its rows that fail a check of single rows.")
    stopped = Gauge("slc_ops_window_stopped", "1 if validation stopped the newest window.")
    ends = Gauge("slc_ops_window_end_timestamp_seconds", "End of the newest validated window.")
    for name in names:
        _, result = newest_validation(installation, name)
        if not result:
            continue
        rows.add(result["rows"], deployment=name)
        quarantined.add(result["quarantined"], deployment=name)
        if result["rows"]:
            share.add(result["quarantined"] / result["rows"], deployment=name)
            for check, count in result.get("statistics", {}).get("failed", {}).items():
                failing.add(count / result["rows"], deployment=name, check=check)
        stopped.add(result["status"] == "stopped", deployment=name)
        ends.add(Window.from_dict(result["window"]).end.timestamp(), deployment=name)
    return [rows, quarantined, share, failing, stopped, ends]


def _champion_metrics(
    installation: Installation, decided: Mapping[str, Decided], now: datetime
) -> Iterator[Gauge]:
    """Read the champions from the ledger; if it fails, only ``slc_ops_ledger_up`` has a value."""
    from slc_ops.registry import Registry
    from slc_ops.registry.overview import glance

    up = Gauge("slc_ops_ledger_up", "1 if the ledger exists and can be read.")
    version = Gauge("slc_ops_champion_version", "Version number of the champion.")
    since = Gauge("slc_ops_champion_since_timestamp_seconds", "When the champion took over.")
    age = Gauge(
        "slc_ops_champion_age_seconds",
        "Time since the end of the newest window that the champion was fitted on.",
    )
    held = Gauge("slc_ops_held_windows", "Newest consecutive windows whose change of champion was held.")
    try:
        registry = Registry.open(installation, create=False)
        found = {name: glance(registry.ledger, name) for name in decided}
        for name, each in found.items():
            champion = each.champion
            if champion is not None and each.last is not None:
                version.add(champion.number, deployment=name)
                since.add(each.last.at.timestamp(), deployment=name)
                age.add((now - champion.window.end).total_seconds(), deployment=name)
            held.add(held_in_a_row(decided[name], each.line), deployment=name)
        yield from _item_metrics(installation, {name: each.champion for name, each in found.items()})
        up.add(registry.ledger.database.present)
    except RegistryError:
        up.add(0)
    yield from (up, version, since, age, held)


def _quality_metrics(decided: Mapping[str, Decided]) -> list[Gauge]:
    """Return every metric by method on the newest window with evidence, and the number of verdicts."""
    from slc_ops.evidence.metrics import METRICS, paired_metrics

    value = Gauge("slc_ops_quality", "A method on the newest window, fitted on the windows before it.")
    gain = Gauge(
        "slc_ops_gain_over_platt",
        "Gain over Platt scaling on the same rows; above 0 is better for every metric.",
    )
    verdicts = Gauge("slc_ops_refreshes", "Refreshes on disk by their verdict.")
    for name, found in decided.items():
        count = Counter(outcome.verdict for window in found for _, outcome in window)
        for verdict in VERDICTS:
            verdicts.add(count[verdict], deployment=name, verdict=verdict)
        if not found:
            continue
        newest = found[-1][-1][1]
        for method, figures in newest.quality.items():
            for metric in METRICS:
                if metric in figures:
                    value.add(figures[metric], deployment=name, method=method, metric=metric)
        for method, intervals in newest.gains.items():
            for each in paired_metrics() if method != "platt" else ():
                for bound, number in _gains(intervals.get(each.name), each.better).items():
                    gain.add(number, deployment=name, method=method, metric=each.name, bound=bound)
    return [value, gain, verdicts]


def _served_metrics(installation: Installation, names: list[str]) -> list[Gauge]:
    """Return the newest audit's results, if logs contain the served probabilities."""
    off = Gauge(
        "slc_ops_served_off_share",
        "Share of rows whose served probability differs from that of their version.",
    )
    rows = Gauge("slc_ops_served_rows", "Rows of the newest audited window by the version that served them.")
    stale = Gauge("slc_ops_served_stale_rows", "Rows that an older version served after a newer one.")
    for name in names:
        _, found = newest_audit(installation, name)
        if not found:
            continue
        off.add(found["share"], deployment=name)
        stale.add(sum(each["rows"] for each in found["served"] if each["stale"]), deployment=name)
        by_version: Counter[int] = Counter()
        for each in found["served"]:
            by_version[each["version"]] += each["rows"]
        for version, number in sorted(by_version.items()):
            rows.add(number, deployment=name, version=str(version))
    return [off, rows, stale]


def _item_metrics(installation: Installation, champions: "Mapping[str, Version | None]") -> list[Gauge]:
    """Return the champion's coverage of the newest window's items, if its refresh is on disk."""
    known = Gauge(
        "slc_ops_item_coverage", "Share of rows of the newest window with an item known to the champion."
    )
    unknown = Gauge("slc_ops_unknown_items", "Items of the newest window unknown to the champion.")
    for name, champion in champions.items():
        found = None if champion is None else _coverage(installation, champion)
        if found is not None:
            known.add(found[0], deployment=name)
            unknown.add(found[1], deployment=name)
    return [known, unknown]


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
