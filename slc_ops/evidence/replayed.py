"""Hold the results of a replay: the served method by window, against refitted Platt and the frozen model."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from operator import mul
from typing import Any, Literal

from slc_ops.base.methods import METHODS, REFERENCES
from slc_ops.base.window import Window
from slc_ops.evidence.series import Entry, Statistic, statistic
from slc_ops.evidence.within import Within, ranking_in_words

SERVED = "served"
Status = Literal["scored", "first", "missing", "stopped"]
Renewed = Literal["renewed", "held", "none"]


@dataclass(frozen=True)
class ReplayedWindow:
    """One window of a replay: the method that served it, and the decision of its refresh for the next one.

    ``served`` and ``serves_next`` are methods; ``base`` is the frozen model. ``entry`` has the scores of all
    methods fitted on earlier windows and, as ``served``, of the served parameters. A ``first`` window has no
    earlier window, a ``missing`` one no rows, a ``stopped`` one rows that fail validation; then ``note`` has
    the reason, and the served method stays. A stopped window was served, so it is scored.
    """

    window: Window
    status: Status
    served: str
    serves_next: str
    renewal: Renewed = "none"
    entry: Entry | None = None
    note: str = ""
    sentence: str = ""
    ranking: Mapping[str, Within] = field(default_factory=dict)
    """By contender: the AUC over all pairs (``all``), and over pairs of one user and of one item."""

    @property
    def change(self) -> Literal["promoted", "demoted"] | None:
        """The direction of a method change on the ladder; None without a change."""
        if self.serves_next == self.served:
            return None
        order = list(METHODS)
        return "promoted" if order.index(self.serves_next) > order.index(self.served) else "demoted"


@dataclass(frozen=True)
class Contender:
    """The NLL difference of a method, or of the served parameters, from a reference over all scored windows.

    ``mean`` is the plain mean over windows, ``row_mean`` weights them by rows. ``statistic`` is the
    decision's statistic over the same windows: its mean gives small windows less weight, and reports show
    its interval.
    """

    name: str
    reference: str
    windows: int
    mean: float
    row_mean: float
    worst: float
    worst_window: Window
    statistic: Statistic

    @property
    def clearly(self) -> Literal["better", "worse"] | None:
        """The direction of the difference; None if the interval includes 0."""
        if self.statistic.high < 0:
            return "better"
        return "worse" if self.statistic.low > 0 else None

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        found = self.statistic
        return {
            "windows": self.windows,
            "mean": self.mean,
            "row_weighted": self.row_mean,
            "low": found.low,
            "high": found.high,
            "weighted_mean": found.mean,
            "next_low": found.next_low,
            "next_high": found.next_high,
            "worst": self.worst,
            "worst_window": str(self.worst_window),
        }


@dataclass(frozen=True)
class Replay:
    """A simulated operation over past windows, with every change approved at once."""

    deployment: str
    methods: tuple[str, ...]
    windows: tuple[ReplayedWindow, ...]
    confidence: float = 0.95

    @property
    def span(self) -> Window:
        """The span from the first window to the last."""
        first, last = self.windows[0].window, self.windows[-1].window
        return Window(first.start, last.end, first.zone)

    @cached_property
    def scored(self) -> tuple[Entry, ...]:
        """The entries with a score of the served parameters: all windows with rows except the log's first."""
        found = (each.entry for each in self.windows if each.entry is not None)
        return tuple(entry for entry in found if SERVED in entry.against)

    @property
    def rows_without_evidence(self) -> int:
        """The number of served rows without evidence, those of stopped windows."""
        return sum(each.entry.rows for each in self.with_status("stopped") if each.entry is not None)

    def differences(self, name: str, reference: str) -> list[tuple[Window, float]]:
        """Return the NLL of ``name`` minus that of the reference, by window."""
        if name == reference:
            return [(each.window, 0.0) for each in self.scored]
        pairs = [(each.window, each.difference(name, reference)) for each in self.scored]
        return [(window, pair.d) for window, pair in pairs if pair is not None]

    def cumulated(self, name: str, reference: str) -> list[tuple[Window, float]]:
        """Return the running sum of :meth:`differences`."""
        found = self.differences(name, reference)
        totals = accumulate(value for _, value in found)
        return [(window, total) for (window, _), total in zip(found, totals, strict=True)]

    def against(self, reference: str) -> dict[str, Contender]:
        """Compare the served parameters, and every method refitted each window, with a reference."""
        found, weight = {}, {each.window: each.weight for each in self.scored}
        for name in (SERVED, *self.methods):
            values = self.differences(name, reference)
            seen = statistic(self.scored, name, reference, last=len(self.scored), confidence=self.confidence)
            if name != reference and values and seen is not None:
                worst = max(values, key=lambda each: each[1])
                d, rows = [value for _, value in values], [weight[window] for window, _ in values]
                mean, by_row = sum(d) / len(d), sum(map(mul, d, rows)) / sum(rows)
                found[name] = Contender(name, reference, len(d), mean, by_row, worst[1], worst[0], seen)
        return found

    @cached_property
    def best(self) -> str:
        """The best single method in hindsight, refitted every window; Platt if nothing was scored."""
        means = {"platt": 0.0} | {
            name: each.mean for name, each in self.against("platt").items() if name != SERVED
        }
        whole = [name for name in means if len(self.differences(name, "platt")) == len(self.scored)]
        return min(whole, key=lambda name: (means[name], list(METHODS).index(name)))

    @property
    def kept(self) -> float | None:
        """The share of the best method's gain over Platt that was served; None without a gain."""
        return self._kept("mean")

    def _kept(self, kind: Literal["mean", "row_mean"]) -> float | None:
        """Return :attr:`kept`, with ``row_mean`` of windows weighted by rows."""
        found = self.against("platt")
        if self.best not in found or SERVED not in found or getattr(found[self.best], kind) >= 0:
            return None
        return float(getattr(found[SERVED], kind) / getattr(found[self.best], kind))

    @cached_property
    def ranking(self) -> dict[str, dict[str, float]]:
        """The mean AUC by contender and kind of pair (all, same user, same item).

        Only windows with that AUC for every contender count.
        """
        names, found = (SERVED, *self.methods), [each.ranking for each in self.windows]
        kinds = list(dict.fromkeys(kind for each in found for kind in each.get(SERVED, {})))
        means: dict[str, dict[str, float]] = {name: {} for name in names}
        for kind in kinds:
            values = [[each.get(name, {}).get(kind) for name in names] for each in found]
            whole = [
                known for each in values if len(known := [v for v in each if v is not None]) == len(each)
            ]
            for name, own in zip(names, zip(*whole, strict=True), strict=False):
                means[name][kind] = sum(own) / len(own)
        return means

    @property
    def ranking_in_words(self) -> str | None:
        """A sentence that names the contenders with better ranking within users and items, or None."""
        return ranking_in_words(
            {name: {k: v for k, v in each.items() if k != "all"} for name, each in self.ranking.items()}
        )

    @property
    def changes(self) -> list[ReplayedWindow]:
        """The windows whose refresh changed the method."""
        return [each for each in self.windows if each.change is not None]

    def with_status(self, *statuses: Status) -> list[ReplayedWindow]:
        """Return the windows with one of these statuses."""
        return [each for each in self.windows if each.status in statuses]

    def renewals(self, what: Renewed) -> list[ReplayedWindow]:
        """Return the windows whose refresh renewed or held the parameters."""
        return [each for each in self.windows if each.renewal == what]

    @property
    def headline(self) -> str:
        """A short comparison of the served parameters with refitted Platt and the frozen model."""
        platt, frozen = self.against("platt").get(SERVED), self.against("base").get(SERVED)
        if platt is None or frozen is None:
            return "Nothing to score"
        words = {"better": "better than", "worse": "worse than", None: "not clearly apart from"}
        if platt.clearly == frozen.clearly:
            text = f"{words[platt.clearly]} Platt and the frozen model"
        else:
            text = f"{words[frozen.clearly]} the frozen model, {words[platt.clearly]} Platt"
        return f"{text[0].upper()}{text[1:]}"

    @property
    def sentence(self) -> str:
        """A summary of the replay in one or two sentences."""
        from slc_ops.base.text import signed

        platt, frozen = self.against("platt").get(SERVED), self.against("base").get(SERVED)
        if platt is None or frozen is None:
            return "No window could be scored: the first one has no earlier window."
        text = (
            f"Over {platt.windows} scored windows the NLL of the served versions would differ by "
            f"{signed(platt.mean)} from Platt refitted every window and by {signed(frozen.mean)} from the "
            f"frozen model; by rows {signed(platt.row_mean)} and {signed(frozen.row_mean)}."
        )
        stopped = [each for each in self.with_status("stopped") if each.entry is not None]
        if not stopped:
            return text
        windows = "one window" if len(stopped) == 1 else f"{len(stopped)} windows"
        return f"{text} {self.rows_without_evidence} of these rows, in {windows}, gave no evidence."

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        names = (SERVED, *self.methods)
        running = {name: dict(self.cumulated(name, "platt")) for name in names}
        return {
            "deployment": self.deployment,
            "from": self.span.start.isoformat(),
            "to": self.span.end.isoformat(),
            "methods": list(self.methods),
            "sentence": self.sentence,
            "against": {
                reference: {name: each.as_dict() for name, each in self.against(reference).items()}
                for reference in REFERENCES
            },
            "auc": self.ranking,
            "ranking": self.ranking_in_words,
            "best_in_hindsight": self.best,
            "share_kept": self.kept,
            "share_kept_row_weighted": self._kept("row_mean"),
            "rows_without_evidence": self.rows_without_evidence,
            "changes": [_change(each) for each in self.changes],
            "renewed": len(self.renewals("renewed")),
            "held": _named(self.renewals("held"), "sentence"),
            "stopped": _named(self.with_status("stopped"), "note"),
            "missing": _named(self.with_status("missing"), "note"),
            "windows": [
                {
                    "window": each.window.as_dict(),
                    "status": each.status,
                    "served": each.served,
                    "serves_next": each.serves_next,
                    "renewal": each.renewal,
                    "rows": 0 if each.entry is None else each.entry.rows,
                    "nll": {} if each.entry is None else each.entry.nll,
                    "auc": each.ranking,
                    "minus_platt": _pairs(each, names),
                    "cumulated_minus_platt": {
                        name: sums[each.window] for name, sums in running.items() if each.window in sums
                    },
                    "note": each.note,
                    "sentence": each.sentence,
                }
                for each in self.windows
            ],
        }


def _change(each: ReplayedWindow) -> dict[str, Any]:
    return {
        "window": str(each.window),
        "change": each.change,
        "from": each.served,
        "to": each.serves_next,
        "sentence": each.sentence,
    }


def _named(windows: Iterable[ReplayedWindow], why: str) -> list[dict[str, str]]:
    return [{"window": str(each.window), "why": getattr(each, why)} for each in windows]


def _pairs(each: ReplayedWindow, names: Iterable[str]) -> dict[str, Any]:
    if each.entry is None:
        return {}
    pairs = {name: each.entry.difference(name, "platt") for name in names if name != "platt"}
    return {name: {"d": pair.d, "se": pair.se} for name, pair in pairs.items() if pair is not None}
