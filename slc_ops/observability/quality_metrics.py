"""How good the methods and the champion are, for Prometheus: from the newest evidence on disk."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from slc_ops.observability.gauge import Gauge
from slc_ops.refresh.versions import find_version, outcomes
from slc_ops.settings.deployments import Places

if TYPE_CHECKING:
    from slc_ops.registry import Version


VERDICTS = ("promote", "hold", "reject")


def quality_metrics(places: Places, names: list[str]) -> list[Gauge]:
    """Every metric of the table by method, on the newest window that has evidence; and verdicts."""
    from slc_ops.evidence.metrics import METRICS, paired_metrics

    value = Gauge("slc_ops_quality", "A method on the newest window, fitted on the windows before it.")
    gain = Gauge(
        "slc_ops_gain_over_platt",
        "How much better than Platt scaling, on the same rows; above 0 is better, whatever the metric.",
    )
    verdicts = Gauge("slc_ops_refreshes", "Refreshes on disk by their verdict.")
    for name in names:
        found = list(outcomes(places.refreshes(name)))
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


def item_metrics(places: Places, champions: "Mapping[str, Version | None]") -> list[Gauge]:
    """Which items of the newest window the champion knows, where its refresh is on disk."""
    known = Gauge("slc_ops_item_coverage", "Share of the newest window's rows whose item the champion knows.")
    unknown = Gauge("slc_ops_unknown_items", "Items of the newest window that the champion does not know.")
    for name, champion in champions.items():
        found = None if champion is None else _coverage(places, name, champion.number)
        if found is not None:
            known.add(found[0], deployment=name)
            unknown.add(found[1], deployment=name)
    return [known, unknown]


def _gains(found: dict[str, Any] | None, better: int) -> dict[str, float]:
    """The difference and its ends, turned so that more is better.

    >>> _gains({"estimate": -0.5, "low": -0.75, "high": -0.25}, -1)
    {'estimate': 0.5, 'low': 0.25, 'high': 0.75}
    """
    if found is None or found.get("estimate") is None:
        return {}
    low, high = ("low", "high") if better > 0 else ("high", "low")
    turned = {"estimate": found["estimate"], "low": found.get(low), "high": found.get(high)}
    return {bound: better * number for bound, number in turned.items() if number is not None}


def _coverage(places: Places, name: str, version: int) -> tuple[float, int] | None:
    """The share of rows, and the number of items: from the window's own count and the set's items."""
    import pyarrow.compute as pc

    from slc_ops.base.parquet import read_parquet
    from slc_ops.parameters import effect_file
    from slc_ops.quality.statistics import ITEMS as COUNTED

    windows = sorted(places.windows(name).glob(f"[!.]*/{COUNTED}"))
    found = find_version(places.refreshes(name), version)
    if not windows or found is None:
        return None
    known = found[0].directory / found[1].parameters / effect_file("item")
    if not known.exists():
        return None
    rows = read_parquet(windows[-1], ["item_id", "rows"])
    total = pc.sum(rows["rows"]).as_py() or 0
    items = read_parquet(known, ["id"])["id"]
    there = pc.is_in(pc.cast(rows["item_id"], "string"), value_set=pc.cast(items, "string").combine_chunks())
    covered = pc.sum(rows["rows"].filter(there)).as_py() or 0
    return (covered / total if total else 1.0), len(rows) - (pc.sum(there).as_py() or 0)
