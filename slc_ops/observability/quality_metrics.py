"""How good the methods and the champion are, for Prometheus: from the newest evidence on disk."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slc_ops.base.files import read_json
from slc_ops.observability.gauge import Gauge
from slc_ops.settings.deployments import Places

if TYPE_CHECKING:
    from slc_ops.registry import Version


def quality_metrics(places: Places, names: list[str]) -> list[Gauge]:
    """Every metric of the table by method, on the newest window that has evidence; and what was held."""
    from slc_ops.evidence.metrics import METRICS, paired_metrics

    value = Gauge("slc_ops_quality", "A method on the newest window, fitted on the windows before it.")
    gain = Gauge(
        "slc_ops_gain_over_platt",
        "How much better than Platt scaling, on the same rows; above 0 is better, whatever the metric.",
    )
    held = Gauge("slc_ops_held_windows", "Newest windows in a row whose verdict was not to promote.")
    for name in names:
        verdicts = _newest_verdicts(places.refreshes(name))
        if not verdicts:
            continue
        promoted = [read_json(path)["verdict"] == "promote" for path in reversed(verdicts)]
        held.add(len(list(itertools.takewhile(lambda each: not each, promoted))), deployment=name)
        week, key = verdicts[-1].parts[-3:-1]
        evidence = next(places.refreshes(name).glob(f"{week}/{key}/backtest.json"), None)
        if evidence is None:
            continue
        backtest = read_json(evidence)
        for method, figures in _confirming(backtest).items():
            for metric in METRICS:
                if (figures or {}).get(metric) is not None:
                    value.add(figures[metric], deployment=name, method=method, metric=metric)
        for method, references in backtest["differences"].items():
            for each in paired_metrics() if method != "platt" else ():
                found = (references.get("platt") or {}).get(each.name)
                for bound, number in _gains(found, each.better).items():
                    gain.add(number, deployment=name, method=method, metric=each.name, bound=bound)
    return [value, gain, held]


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


def _newest_verdicts(refreshes: Path) -> list[Path]:
    """The last verdict of every window, oldest window first."""
    newest: dict[str, Path] = {}
    for path in sorted(refreshes.glob("[!.]*/[!.]*/verdict.json"), key=lambda path: path.stat().st_mtime_ns):
        newest[path.parent.parent.name] = path
    return [newest[week] for week in sorted(newest)]


def _confirming(backtest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Method → its figures on the newest window; empty where it has none."""
    newest = max(backtest["scores"], key=lambda fold: fold.split("-", 1)[-1], default=None)
    scores = {} if newest is None else backtest["scores"][newest]
    return {method: score["metrics"] or {} for method, score in scores.items()}


def _gains(found: dict[str, float | None] | None, better: int) -> dict[str, float]:
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
    from slc_ops.parameters import ITEMS
    from slc_ops.quality.statistics import ITEMS as COUNTED

    windows = sorted(places.windows(name).glob(f"[!.]*/{COUNTED}"))
    sets = [
        path.parent / "parameters" / ITEMS
        for path in places.refreshes(name).glob("[!.]*/[!.]*/version.json")
        if read_json(path)["version"] == version
    ]
    if not windows or not sets or not sets[0].exists():
        return None
    rows = read_parquet(windows[-1], ["item_id", "rows"])
    total = pc.sum(rows["rows"]).as_py() or 0
    items = read_parquet(sets[0], ["item_id"])["item_id"]
    there = pc.is_in(pc.cast(rows["item_id"], "string"), value_set=pc.cast(items, "string").combine_chunks())
    known = pc.sum(rows["rows"].filter(there)).as_py() or 0
    return (known / total if total else 1.0), len(rows) - (pc.sum(there).as_py() or 0)
