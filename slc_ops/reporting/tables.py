"""The page's tables: rows of plain text, built from the evidence."""

from typing import Any

from slc_ops.base.text import MISSING, number, share, signed
from slc_ops.evidence.metrics import METRICS, headline_metrics, paired_metrics
from slc_ops.evidence.results import Backtest
from slc_ops.evidence.scoring import Score
from slc_ops.evidence.uncertainty import PairedDifference
from slc_ops.evidence.within import ranking_in_words

MIN_GROUP_ROWS = 100
Row = dict[str, Any]


def fold_columns(backtest: Backtest) -> list[Row]:
    """Return the folds as columns, with window, role and note; the last column is the mean."""
    columns = []
    for fold in backtest.plan.folds:
        role = "hold-out" if fold.hold_out else "newest" if fold.newest else "scored"
        note = backtest.scores[fold.key]["platt"].error
        columns.append({"window": str(fold.window), "role": "left out" if note else role, "note": note})
    return [*columns, {"window": "mean", "role": "of all windows", "note": None}]


def fold_rows(backtest: Backtest, chosen: str | None) -> list[Row]:
    """Return NLL and AUC of each method on every fold, then the mean of all windows."""
    means = backtest.means()
    rows = []
    for method in backtest.methods:
        cells = [_cell(backtest.scores[fold.key][method]) for fold in backtest.plan.folds]
        mean = _pair(means[method]["nll"], means[method]["auc"])
        rows.append({"method": method, "chosen": method == chosen, "cells": [*cells, mean]})
    return rows


def _cell(score: Score) -> Row:
    if score.metrics is None:
        return {"nll": MISSING, "auc": MISSING, "why": score.error}
    return _pair(score.metrics.nll, score.metrics.auc, score.metrics.reasons.get("auc"))


def _pair(nll: float | None, auc: float | None, why: str | None = None) -> Row:
    return {"nll": number(nll), "auc": number(auc), "why": why}


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
                "seconds": number(score.seconds_fit, 3),
                "why": score.error or "; ".join(score.warnings),
            }
        )
    return rows


def slice_columns() -> list[str]:
    """Return the columns of :func:`slice_rows`; Platt's figure precedes ours for paired metrics."""
    columns = []
    for each in headline_metrics():
        columns += [f"{each.title}, Platt", each.title] if each.paired else [each.title]
    return columns


def slice_rows(backtest: Backtest, method: str | None, kinds: tuple[str, ...]) -> list[Row]:
    """Return each slice of the newest window: Platt, the candidate, and the paired difference."""
    if method is None or backtest.newest[method].metrics is None:
        return []
    platt = {(part["kind"], part["name"]): part for part in backtest.newest["platt"].slices}
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
    platt = next(
        (
            part["nll"]
            for part in backtest.newest["platt"].slices
            if part["kind"] == "group" and part["name"] == worst["name"]
        ),
        None,
    )
    return {"label": worst["label"], "nll": number(worst["nll"]), "n": worst["n"], "platt": number(platt)}


def item_rows(found: list[dict[str, Any]]) -> list[Row]:
    """Return the items with the largest gains and losses, with predicted and observed rates."""
    return [
        {
            "name": row["item_id"],
            "n": row["n"],
            "observed": share(row["observed"]),
            "before": share(row["before"]),
            "after": share(row["after"]),
            "gain": signed(row["gain"], 2),
        }
        for row in found
    ]
