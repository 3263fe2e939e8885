"""What the page's tables say: rows of plain text, made from the evidence."""

from typing import Any

from slc_ops.evidence.results import Backtest
from slc_ops.evidence.scoring import Score
from slc_ops.evidence.uncertainty import Interval, PairedDifference

MISSING = "–"
MIN_GROUP_ROWS = 100
Row = dict[str, Any]


def number(value: float | None, digits: int = 4) -> str:
    """A figure, or a dash for one that does not exist.

    >>> number(0.61234), number(None)
    ('0.6123', '–')
    """
    return MISSING if value is None else f"{value:.{digits}f}"


def signed(value: float | None, digits: int = 4) -> str:
    """A difference, with its sign.

    >>> signed(-0.01), signed(0.0)
    ('−0.0100', '+0.0000')
    """
    return MISSING if value is None else f"{value:+.{digits}f}".replace("-", "−")


def interval(found: Interval | None) -> str:
    """A difference with its interval, or the reason why there is none."""
    if found is None:
        return MISSING
    if found.low is None:
        return (
            f"{signed(found.estimate)} ({found.reason})" if found.estimate is not None else str(found.reason)
        )
    return f"{signed(found.estimate)} [{signed(found.low)}, {signed(found.high)}]"


def fold_columns(backtest: Backtest) -> list[Row]:
    """The folds as columns: their windows and what each is for; the last one is the mean of the older."""
    columns = []
    for fold in backtest.plan.folds:
        role = "hold-out" if fold.hold_out else "newest, confirms" if fold.role == "confirm" else "chooses"
        note = backtest.skipped.get(fold.key)
        columns.append({"window": str(fold.window), "role": "left out" if note else role, "note": note})
    return [*columns, {"window": "mean", "role": "of the older folds", "note": None}]


def fold_rows(backtest: Backtest, chosen: str | None) -> list[Row]:
    """Per method its NLL and AUC on every fold, then the mean of the older folds."""
    means = backtest.older_means()
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


def method_rows(backtest: Backtest, chosen: str | None) -> list[Row]:
    """Per method on the newest window: all metrics, and its differences to Platt."""
    rows = []
    for name in (*backtest.methods, *(["champion"] if "champion" in backtest.newest else [])):
        score = backtest.newest[name]
        against = backtest.differences.get(name, {}).get("platt") if name != "platt" else None
        metrics = score.metrics
        values = {} if metrics is None else {m: number(getattr(metrics, m)) for m in METRICS}
        rows.append(
            {
                "name": name,
                "chosen": name == chosen,
                **{metric: values.get(metric, MISSING) for metric in METRICS},
                "seconds": number(score.seconds_fit, 2),
                "against_auc": interval(against.auc) if against else MISSING,
                "against_nll": interval(against.nll) if against else MISSING,
                "why": score.error or "; ".join(score.warnings),
            }
        )
    return rows


METRICS = ("auc", "nll", "brier", "ece", "accuracy")


def slice_rows(backtest: Backtest, method: str | None, kinds: tuple[str, ...]) -> list[Row]:
    """Per slice of the newest window: Platt, the candidate, and the paired difference."""
    if method is None or backtest.newest[method].metrics is None:
        return []
    platt = {(part["kind"], part["name"]): part for part in backtest.newest["platt"].slices}
    rows = []
    for part in backtest.newest[method].slices:
        if part["kind"] not in kinds:
            continue
        before = platt.get((part["kind"], part["name"]), {})
        found = backtest.slice_differences.get(method, {}).get(f"{part['kind']}:{part['name']}")
        rows.append(
            {
                "label": part["label"],
                "n": part["n"],
                "auc_before": number(before.get("auc")),
                "auc": number(part["auc"]),
                "nll_before": number(before.get("nll")),
                "nll": number(part["nll"]),
                "ece": number(part["ece"]),
                "difference": interval(found.nll) if found else MISSING,
                "verdict": _slice_verdict(found),
                "why": "; ".join(sorted(set(part["reasons"].values()))),
            }
        )
    return rows


def _slice_verdict(found: PairedDifference | None) -> str:
    if found is None or found.nll.low is None or found.nll.high is None:
        return "unknown"
    return "better" if found.nll.high < 0 else "worse" if found.nll.low > 0 else "unclear"


def worst_group(backtest: Backtest, method: str | None) -> Row | None:
    """The group with the highest NLL under the candidate, among those with enough rows to say so."""
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
    platt = max(
        (part["nll"] for part in backtest.newest["platt"].slices if part["kind"] == "group" and part["nll"]),
        default=None,
    )
    return {"label": worst["label"], "nll": number(worst["nll"]), "n": worst["n"], "platt": number(platt)}


def item_rows(found: list[dict[str, Any]]) -> list[Row]:
    """The items that gained or lost most, with what was predicted and what happened."""
    return [
        {
            "name": row["item_id"],
            "n": row["n"],
            "observed": f"{row['observed']:.0%}",
            "before": f"{row['before']:.0%}",
            "after": f"{row['after']:.0%}",
            "gain": signed(row["gain"], 2),
        }
        for row in found
    ]
