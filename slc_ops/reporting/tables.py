"""Slices of the page: the candidate beside Platt, with the paired difference."""

from typing import Any

from slc_ops.evidence.results import Backtest
from slc_ops.evidence.uncertainty import PairedDifference

MIN_GROUP_ROWS = 100
Row = dict[str, Any]


def slice_rows(backtest: Backtest, method: str | None) -> list[Row]:
    """Return each slice of the newest window under the candidate and Platt, and their difference in NLL."""
    if method is None or backtest.newest[method].metrics is None:
        return []
    platt = {(part["kind"], part["name"]): part for part in backtest.newest["platt"].slices}
    gains = backtest.slice_differences.get(method, {})
    rows = []
    for part in backtest.newest[method].slices:
        found = gains.get(f"{part['kind']}:{part['name']}")
        rows.append(
            {
                "ours": part,
                "platt": platt.get((part["kind"], part["name"]), {}),
                "difference": None if found is None else found.nll,
                "verdict": _slice_verdict(found),
                "why": "; ".join(sorted(set(part["reasons"].values()))),
            }
        )
    return rows


def _slice_verdict(found: PairedDifference | None) -> str:
    if found is None or found.nll.low is None or found.nll.high is None:
        return "unknown"
    return "better" if found.nll.high < 0 else "worse" if found.nll.low > 0 else "unclear"


def worst_group(groups: list[Row]) -> Row | None:
    """Return the group with the highest NLL under the candidate, among those with enough rows."""
    large = [row for row in groups if row["ours"]["n"] >= MIN_GROUP_ROWS and row["ours"]["nll"] is not None]
    return max(large, key=lambda row: float(row["ours"]["nll"]), default=None)
