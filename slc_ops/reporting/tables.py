"""The page's tables: rows of plain text, built from the evidence."""

from typing import Any

from slc_ops.base.text import MISSING, number, seconds
from slc_ops.evidence.metrics import METRICS, headline_metrics, paired_metrics
from slc_ops.evidence.results import Backtest
from slc_ops.evidence.uncertainty import PairedDifference
from slc_ops.evidence.within import ranking_in_words

MIN_GROUP_ROWS = 100
Row = dict[str, Any]


def method_columns(backtest: Backtest) -> list[str]:
    """Return the columns of :func:`method_rows`: metrics, differences from Platt with intervals, and the AUC
    within users and items.
    """
    metrics = [each.title for each in METRICS.values()]
    gains = [f"Δ {each.title} vs Platt" for each in paired_metrics()]
    return [*metrics, *gains, *(f"AUC within {kind}" for kind in _kinds(backtest))]


def _kinds(backtest: Backtest) -> list[str]:
    """Return the kinds of pairs for which the newest window has an AUC."""
    return list(next((each.within for each in backtest.newest.values() if each.within), {}))


def ranking(backtest: Backtest) -> str | None:
    """Describe the kind of ranking that each method improves on the newest window."""
    return ranking_in_words({name: backtest.newest[name].within for name in backtest.methods})


def method_rows(backtest: Backtest, chosen: str | None) -> list[Row]:
    """Return each method's metrics, differences from Platt and AUC within users and items (newest window)."""
    rows = []
    for name in (*backtest.methods, *(["champion"] if "champion" in backtest.newest else [])):
        score = backtest.newest[name]
        against = backtest.differences.get(name, {}).get("platt") if name != "platt" else None
        found = score.metrics
        values = [MISSING if found is None else each.text(found[each.name]) for each in METRICS.values()]
        gains = [
            MISSING if against is None else against[each.name].text(each.signed) for each in paired_metrics()
        ]
        within = [METRICS["auc"].text(score.within.get(kind)) for kind in _kinds(backtest)]
        rows.append(
            {
                "name": name,
                "chosen": name == chosen,
                "cells": [*values, *gains, *within],
                "seconds": seconds(score.seconds_fit),
                "why": score.error or "; ".join(score.warnings),
            }
        )
    return rows


def slice_rows(backtest: Backtest, method: str | None, kinds: tuple[str, ...]) -> list[Row]:
    """Return each slice of the newest window: Platt, the candidate, and the paired difference.

    Of paired metrics, Platt's figure precedes the candidate's.
    """
    if method is None or backtest.newest[method].metrics is None:
        return []
    platt = _of_platt(backtest)
    rows = []
    for part in backtest.newest[method].slices:
        if part["kind"] not in kinds:
            continue
        before = platt.get((part["kind"], part["name"]), {})
        found = backtest.slice_differences.get(method, {}).get(f"{part['kind']}:{part['name']}")
        cells = []
        for each in headline_metrics():
            both = (before, part) if each.paired else (part,)
            cells += [each.text(one.get(each.name)) for one in both]
        rows.append(
            {
                "label": part["label"],
                "n": part["n"],
                "cells": cells,
                "difference": found.nll.text() if found else MISSING,
                "verdict": _slice_verdict(found),
                "why": "; ".join(sorted(set(part["reasons"].values()))),
            }
        )
    return rows


def _of_platt(backtest: Backtest) -> dict[tuple[str, str], Row]:
    """Return the slices of the newest window under Platt, by kind and name."""
    return {(part["kind"], part["name"]): part for part in backtest.newest["platt"].slices}


def n_simultaneous_slices(backtest: Backtest, method: str | None) -> Row | None:
    """Return the number of slices with simultaneous intervals and their confidence; None for a single one."""
    found = next(iter(backtest.slice_differences.get(method or "", {}).values()), None)
    if found is None or found.n_simultaneous == 1:
        return None
    return {"count": found.n_simultaneous, "confidence": found.confidence}


def _slice_verdict(found: PairedDifference | None) -> str:
    if found is None or found.nll.low is None or found.nll.high is None:
        return "unknown"
    return "better" if found.nll.high < 0 else "worse" if found.nll.low > 0 else "unclear"


def worst_group(backtest: Backtest, method: str | None) -> Row | None:
    """Return the group with the highest NLL under the candidate, among those with enough rows.

    Platt's NLL is that of the same group.
    """
    if method is None or backtest.newest[method].metrics is None:
        return None
    groups = [
        part
        for part in backtest.newest[method].slices
        if part["kind"] == "group" and part["n"] >= MIN_GROUP_ROWS and part["nll"] is not None
    ]
    if not groups:
        return None
    worst = max(groups, key=lambda part: part["nll"])
    platt = _of_platt(backtest).get(("group", worst["name"]), {}).get("nll")
    return {"label": worst["label"], "nll": number(worst["nll"]), "n": worst["n"], "platt": number(platt)}
