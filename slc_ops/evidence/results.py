"""What a backtest found: every score, the intervals on the newest window, and the champion's place in it."""

from dataclasses import dataclass, field
from typing import Any, Literal

from slc_ops.base.window import Window
from slc_ops.evidence.folds import Fold, FoldPlan
from slc_ops.evidence.metrics import METRICS
from slc_ops.evidence.scoring import Score
from slc_ops.evidence.uncertainty import PairedDifference


@dataclass(frozen=True)
class Champion:
    """The champion in this backtest: scored, absent, or there but not comparable.

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
    skipped: dict[str, str] = field(default_factory=dict)  # choosing folds without numbers: key → why
    champion: Champion = Champion()

    @property
    def window(self) -> Window:
        """The newest window, on which the choice is confirmed."""
        return self.plan.confirming.window

    @property
    def newest(self) -> dict[str, Score]:
        """The scores on the newest window."""
        return self.scores[self.plan.confirming.key]

    @property
    def choosing(self) -> tuple[Fold, ...]:
        """The folds that the choice rests on: those with numbers."""
        return tuple(fold for fold in self.plan.choosing if fold.key not in self.skipped)

    @property
    def notes(self) -> list[str]:
        """What is missing, in words."""
        return [*self.plan.notes, *(f"fold {key} is left out: {why}" for key, why in self.skipped.items())]

    def older_means(self) -> dict[str, dict[str, float | None]]:
        """Per method: each metric's mean over the choosing folds; None when one of them is missing."""
        means: dict[str, dict[str, float | None]] = {}
        for method in self.methods:
            found = [self.scores[fold.key][method].metrics for fold in self.choosing]
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
            "skipped": self.skipped,
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
            skipped=value["skipped"],
            champion=Champion(**value["champion"]),
        )


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _nested(value: dict[str, dict[str, PairedDifference]]) -> dict[str, dict[str, Any]]:
    return {outer: {inner: d.as_dict() for inner, d in each.items()} for outer, each in value.items()}
