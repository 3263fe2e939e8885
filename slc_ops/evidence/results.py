"""Hold the results of a backtest: scores, intervals on the newest window, and the champion's status.

The module also derives the served metrics on the newest window, and the items with the largest gain and loss.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from slc_ops.base.json_form import JsonForm
from slc_ops.base.methods import FROZEN, PLATT
from slc_ops.base.parquet import read_parquet
from slc_ops.base.window import Window
from slc_ops.evidence.folds import FoldPlan
from slc_ops.evidence.metrics import METRICS, paired_metrics
from slc_ops.evidence.scoring import CHAMPION, Score
from slc_ops.evidence.series import Entry
from slc_ops.evidence.uncertainty import Interval, PairedDifference

SHOWN = 8  # items


@dataclass(frozen=True)
class Champion(JsonForm):
    """The champion's status in a backtest: scored on the newest window, absent, or not comparable.

    ``version`` and ``digest`` identify it; evidence about another champion is recomputed.
    """

    status: Literal["absent", "scored", "unreadable", "other_backbone", "saw_window"] = "absent"
    reason: str = "there is no champion yet"
    version: str | None = None
    method: str | None = None
    digest: str | None = None
    taken_back: dict[str, str] = field(default_factory=dict)
    """Methods rolled back by a person, each with a sentence on the person and the waiting time."""
    since: Window | None = None
    """The window whose refresh made the champion's method serve."""


@dataclass(frozen=True)
class Backtest(JsonForm):
    """The numbers behind the decision and the report."""

    plan: FoldPlan
    methods: tuple[str, ...]
    listed: tuple[str, ...]  # the deployment's methods; the rest of ``methods`` is computed for comparison
    scores: dict[str, dict[str, Score]]  # fold key → method (or "champion") → score
    intervals: dict[str, PairedDifference] = field(default_factory=dict)  # method: its own metrics
    differences: dict[str, dict[str, PairedDifference]] = field(default_factory=dict)  # method → reference
    slice_differences: dict[str, dict[str, PairedDifference]] = field(default_factory=dict)  # vs platt
    items: dict[str, dict[str, list[dict[str, Any]]]] = field(default_factory=dict)  # method → best, worst
    entries: tuple[Entry, ...] = ()  # the series, oldest first
    champion: Champion = Champion()

    @property
    def window(self) -> Window:
        """The newest window, which is being refreshed."""
        return self.plan.newest.window

    @property
    def newest(self) -> dict[str, Score]:
        """The scores on the newest window."""
        return self.scores[self.plan.newest.key]

    @property
    def notes(self) -> list[str]:
        """Sentences about missing windows and scores."""
        left_out = [
            f"{method} has no score on {entry.window}: {why}"
            for entry in self.entries
            for method, why in entry.left_out.items()
        ]
        return [*self.plan.notes, *left_out]

    def means(self) -> dict[str, dict[str, float | None]]:
        """Return each metric's mean over windows by method; None if a window lacks it."""
        means: dict[str, dict[str, float | None]] = {}
        for method in self.methods:
            found = [self.scores[fold.key][method].metrics for fold in self.plan.folds]
            means[method] = {
                name: _mean([None if metrics is None else metrics[name] for metrics in found])
                for name in METRICS
            }
        return means


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


@dataclass(frozen=True)
class Served:
    """The method that served one window (``base``: the frozen model), and its metrics.

    ``platt`` and ``frozen`` are the differences by metric from Platt refitted before the window and from the
    frozen model.
    """

    window: Window
    method: str
    version: str | None
    metrics: dict[str, float | None]
    platt: dict[str, Interval]
    frozen: dict[str, Interval]

    def as_dict(self) -> dict[str, Any]:
        """Return the record for the ledger and MLflow, without the window."""
        return {
            "method": self.method,
            "version": self.version,
            **self.metrics,
            "vs_platt": {name: each.bounds for name, each in self.platt.items()},
            "vs_base": {name: each.bounds for name, each in self.frozen.items()},
        }


def served_on(backtest: Backtest) -> Served | None:
    """Return the served method and metrics of the newest window; None if the champion has no score on it.

    With a champion for another backbone the frozen model serves.
    """
    champion = backtest.champion
    if champion.status in ("absent", "other_backbone"):
        who, method, version = FROZEN, FROZEN, None
    elif champion.status == "scored" and champion.method is not None:
        who, method, version = CHAMPION, champion.method, champion.version
    else:
        return None
    score = backtest.newest.get(who)
    if score is None or score.metrics is None:
        return None
    names = [metric.name for metric in paired_metrics()]
    return Served(
        window=backtest.window,
        method=method,
        version=version,
        metrics={name: score.metrics[name] for name in names},
        platt=_against(backtest, who, PLATT, names),
        frozen=_against(backtest, who, FROZEN, names),
    )


def _against(backtest: Backtest, who: str, reference: str, names: list[str]) -> dict[str, Interval]:
    """Return served minus reference; a backtest stores reference minus champion, so signs are flipped."""
    if who == reference:
        return {name: Interval(0.0, 0.0, 0.0) for name in names}
    turned = who == CHAMPION
    pair = (reference, who) if turned else (who, reference)
    found = backtest.differences.get(pair[0], {}).get(pair[1])
    if found is None:
        return {}
    return {name: _turned(found[name]) if turned else found[name] for name in names}


def _turned(found: Interval) -> Interval:
    if found.estimate is None:
        return found
    low = None if found.high is None else -found.high
    return Interval(-found.estimate, low, None if found.low is None else -found.low, found.reason)


def item_gains(reference: Path, candidate: Path, shown: int = SHOWN) -> dict[str, list[dict[str, Any]]]:
    """Return the items with the largest total gain and loss in log-likelihood (nats) against the reference.

    Both files must come from scores on the same rows, so that their items are in the same order. Items are
    ranked by total, not by mean: a large mean on three rows is noise. Rows are weighted, and ``n`` is the
    item's weight: an int if it is a whole number.
    """
    before, after = read_parquet(reference), read_parquet(candidate)
    gain = before["loss"].to_numpy() - after["loss"].to_numpy()
    order = np.argsort(-gain, kind="stable")

    def describe(index: int) -> dict[str, Any]:
        n = float(after["n"][index].as_py())
        return {
            "item_id": str(after["item_id"][index].as_py()),
            "n": int(n) if n.is_integer() else n,
            "observed": after["label"][index].as_py() / n,
            "before": before["prediction"][index].as_py() / n,
            "after": after["prediction"][index].as_py() / n,
            "gain": float(gain[index]),
        }

    best = [describe(int(index)) for index in order[:shown] if gain[index] > 0]
    worst = [describe(int(index)) for index in order[::-1][:shown] if gain[index] < 0]
    return {"best": best, "worst": worst}
