"""What a backtest found: every score, the intervals on the newest window, and the champion's place in it."""

from dataclasses import dataclass, field
from typing import Any, Literal

from slc_ops.base.window import Window
from slc_ops.evidence.folds import FoldPlan
from slc_ops.evidence.metrics import METRICS
from slc_ops.evidence.scoring import Score
from slc_ops.evidence.series import Entry
from slc_ops.evidence.uncertainty import PairedDifference


@dataclass(frozen=True)
class Champion:
    """The champion here: scored (what was served on the newest window), absent, or not comparable.

    ``version`` and ``digest`` say which one it was; evidence about another champion is redone.
    """

    status: Literal["absent", "scored", "unreadable", "other_backbone", "saw_window"] = "absent"
    reason: str = "there is no champion yet"
    version: str | None = None
    method: str | None = None
    digest: str | None = None


@dataclass(frozen=True)
class Backtest:
    """All numbers that the decision and the report are made of; JSON-safe through :meth:`as_dict`."""

    plan: FoldPlan
    methods: tuple[str, ...]
    scores: dict[str, dict[str, Score]]  # fold key → method (or "champion") → score
    intervals: dict[str, PairedDifference] = field(default_factory=dict)  # method: its own metrics
    differences: dict[str, dict[str, PairedDifference]] = field(default_factory=dict)  # method → reference
    slice_differences: dict[str, dict[str, PairedDifference]] = field(default_factory=dict)  # vs platt
    items: dict[str, dict[str, list[dict[str, Any]]]] = field(default_factory=dict)  # method → best, worst
    entries: tuple[Entry, ...] = ()  # the series, oldest first
    champion: Champion = Champion()

    @property
    def window(self) -> Window:
        """The newest window, the one that is being refreshed."""
        return self.plan.newest.window

    @property
    def newest(self) -> dict[str, Score]:
        """The scores on the newest window."""
        return self.scores[self.plan.newest.key]

    @property
    def notes(self) -> list[str]:
        """What is missing, in words."""
        left_out = [
            f"{method} has no number on {entry.window}: {why}"
            for entry in self.entries
            for method, why in entry.left_out.items()
        ]
        return [*self.plan.notes, *left_out]

    def means(self) -> dict[str, dict[str, float | None]]:
        """Per method: each metric's mean over the windows; None when one of them is missing."""
        means: dict[str, dict[str, float | None]] = {}
        for method in self.methods:
            found = [self.scores[fold.key][method].metrics for fold in self.plan.folds]
            means[method] = {
                name: _mean([None if metrics is None else metrics[name] for metrics in found])
                for name in METRICS
            }
        return means

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "plan": self.plan.as_dict(),
            "methods": list(self.methods),
            "scores": {k: {m: s.as_dict() for m, s in v.items()} for k, v in self.scores.items()},
            "intervals": {m: d.as_dict() for m, d in self.intervals.items()},
            "differences": _nested(self.differences),
            "slice_differences": _nested(self.slice_differences),
            "items": self.items,
            "entries": [each.as_dict() for each in self.entries],
            "champion": vars(self.champion),
        }

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> "Backtest":
        """Read what :meth:`as_dict` wrote."""
        read = PairedDifference.from_dict
        return cls(
            plan=FoldPlan.from_dict(value["plan"]),
            methods=tuple(value["methods"]),
            scores={k: {m: Score.from_dict(s) for m, s in v.items()} for k, v in value["scores"].items()},
            intervals={m: read(d) for m, d in value["intervals"].items()},
            differences={m: {r: read(d) for r, d in v.items()} for m, v in value["differences"].items()},
            slice_differences={
                m: {r: read(d) for r, d in v.items()} for m, v in value["slice_differences"].items()
            },
            items=value["items"],
            entries=tuple(Entry.from_dict(each) for each in value["entries"]),
            champion=Champion(**value["champion"]),
        )


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _nested(value: dict[str, dict[str, PairedDifference]]) -> dict[str, dict[str, Any]]:
    return {outer: {inner: d.as_dict() for inner, d in each.items()} for outer, each in value.items()}
