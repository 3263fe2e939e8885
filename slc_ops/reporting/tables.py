"""The page's tables: rows of plain text, built from the evidence."""

from typing import Any

from slc_ops.base.text import MISSING, number
from slc_ops.evidence.metrics import headline_metrics
from slc_ops.evidence.results import Backtest
from slc_ops.evidence.uncertainty import PairedDifference

MIN_GROUP_ROWS = 100
Row = dict[str, Any]


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
