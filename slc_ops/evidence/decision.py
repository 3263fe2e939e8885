"""Decide which method serves, from the series of windows; the renewal of parameters is a separate decision.

A difference between two methods (:mod:`slc_ops.evidence.series`), better or worse, can be:

* **large**: the mean difference is at least ``min_gain`` and at least one standard error;
* **clear** at a level: it lies beyond the t-quantile of that level;
* **plain**, in one window: it is at least ``min_gain`` and three times the users' standard error.

The last eight windows decide; where a rule says *in the long run*, all entries do. Every refresh applies
these rules in order and changes the method at most once:

1. Before the entries have ``min_rows`` rows and one of them ``min_users`` users, no method takes over from
   the frozen model.
2. If a method other than ``platt_eb`` serves and is large or clear worse than ``platt_eb``, that takes over;
   also if the method has four windows and its mean is not better, neither lately nor in the long run. If the
   method is clear (99 %) worse than the frozen model, there is no champion.
3. If the serving method is large or clear worse than the frozen model over the windows since it took over,
   six or more, there is no champion.
4. A method takes over if it is large or clear better than ``platt_eb`` (and than any other serving method)
   in the last windows, or clear in the long run, and is not clear (99 %) worse than the frozen model; if that
   model serves, the method's mean must be better. In one window, or in the later part of the first one, the
   difference must be plain. The levels hold for all rivals together. A method without a line of its own has
   the frozen model's level and must be ahead of that model, too: else a level that jumps would make it
   champion. Among several methods the lowest mean wins; within ``min_gain`` of it, the simplest method.
5. Without a champion, ``platt_eb`` takes over if its mean is better than the frozen model's; with four
   windows or more it must be large or clear better, because it may have served before. With fewer than two
   windows it takes over unless the frozen model is clear (99 %) better.
6. If ``platt_eb`` serves and is clear (99 %) worse than the frozen model, there is no champion.

``platt`` is in no rule: it is the reference of every published comparison, and a method like the others where
a deployment lists it.

``platt_eb`` is shrunk towards the frozen model and tells a level that jumps from a lasting one, so it is
nearly safe beside the frozen model: it begins at once. Waiting for two windows
of evidence cost up to a third of the year's gain on five flight logs. No rule compares the newest parameters
with the champion's: the variation between weeks hides differences between parameters of different ages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from slc_ops.base.json_form import JsonForm
from slc_ops.base.methods import FALLBACK, ladder, may_serve, method_named
from slc_ops.base.text import interval, number, share
from slc_ops.base.window import Window
from slc_ops.evidence.series import Entry, Statistic, statistic
from slc_ops.settings.blocks import Decision

FROZEN = "base"
"""The method name for "no champion": the frozen model serves."""
PLATT = "platt"
"""The reference of comparisons for readers; no rule uses it."""
LEAST_WINDOWS = 2
"""With fewer scored windows a difference must be plain."""
PLAIN = 3.0
"""Standard errors over users that a difference in one window needs."""
DOUBT_WINDOWS = 4
"""With so many windows, a method that is not better than a simpler one gives way to it."""
SERVED_WINDOWS = 6
"""Windows that a method must have served before they can retire it."""
LAST_WINDOWS = 8
"""The windows that decide; the long run has all entries."""
LONG_WAY = 0.99
"""The confidence level for a return to the frozen model at once."""
BEYOND_ONE_ERROR = 0.3173
"""The probability of a difference of more than one standard error, in either direction."""


Effect = Literal["pass", "hold", "reject", "note"]


@dataclass(frozen=True)
class Reason(JsonForm):
    """One comparison: a code for programs, a sentence for people, and its effect on the verdict.

    ``effect`` is ``pass``, ``hold``, ``reject``, or ``note`` for information without effect.
    """

    code: str
    effect: Effect
    sentence: str
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    threshold: float | None = None


@dataclass(frozen=True)
class MethodDecision(JsonForm):
    """The method that serves next, and the reasons; ``statistics`` are by method and reference.

    ``since_start`` compares the current method with the frozen model over the evidence windows that it has
    served.
    """

    current: str
    method: str
    reasons: tuple[Reason, ...]
    statistics: Mapping[str, Mapping[str, Statistic]]
    since_start: Statistic | None = None

    @property
    def change(self) -> bool:
        """True if the method differs from the current one."""
        return self.method != self.current

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        return {**super().as_dict(), "change": self.change}


def decide_method(
    entries: Sequence[Entry],
    current: str,
    listed: Sequence[str],
    rules: Decision,
    *,
    evidence_windows: int = 8,
    may_not: Mapping[str, str] | None = None,
    since: Window | None = None,
) -> MethodDecision:
    """Decide which of the listed methods serves next.

    ``entries`` are in time order, and the last ``evidence_windows`` count. ``current`` is ``base`` without a
    champion or with one for another backbone; a current method that is no longer ``listed`` counts as
    ``platt_eb``, which replaces it. ``may_not`` maps excluded methods to reasons. ``since`` is the window
    after which the current method took over.
    """
    bench = _SeriesView(entries, may_serve(listed), rules, evidence_windows, since)
    unlisted = current not in bench.methods
    serves = FALLBACK if unlisted else current
    reasons: list[Reason] = []
    if unlisted:
        text = f"{current} serves, but is not among the deployment's methods; {FALLBACK} takes its place"
        reasons.append(Reason("unlisted", "pass", text))
    if may_not and serves in may_not:
        reasons.append(Reason("may_not", "note", f"{serves} serves, though {may_not[serves]}"))
    method, said = _early(bench, serves) or _step(bench, serves, may_not or {})
    methods = ladder(listed)
    statistics = {
        m: {r: found for r in methods if r != m and (found := bench.against(m, r)) is not None}
        for m in methods
        if m != FROZEN
    }
    return MethodDecision(current, method, (*reasons, *said), statistics, bench.since_start(current))


def is_ahead(entries: Sequence[Entry], method: str, rules: Decision | None = None, *, last: int = 8) -> bool:
    """Return True if a method is large or clear better than ``platt_eb`` over the last entries."""
    bench = _SeriesView(entries, (method,), rules or Decision(), last)
    found = bench.against(method, FALLBACK)
    return found is not None and bench.ahead(found)


def _step(bench: "_SeriesView", serves: str, may_not: Mapping[str, str]) -> tuple[str, list[Reason]]:
    """Apply rules 2 to 6; return the method and the reasons."""
    if (beaten := _beaten(bench, serves) or _behind_the_frozen_model(bench, serves)) is not None:
        return beaten
    found, notes = _best(bench, serves, may_not)
    if found is not None:
        return found
    platt = bench.against(FALLBACK, FROZEN)
    if platt is None:
        nothing = Reason("no_evidence", "note", f"no window compares {FALLBACK} with the frozen model")
        return serves, [*notes, nothing]
    method, reason = _platt_or_frozen(bench, serves, platt)
    return method, [*notes, *bench.stays(serves)] if reason is None else [reason, *notes]


def _early(bench: "_SeriesView", serves: str) -> tuple[str, list[Reason]] | None:
    """Apply rule 1; return None with enough rows and users, without entries and with a champion."""
    rows, users = (
        sum(each.rows for each in bench.entries),
        max((each.users for each in bench.entries), default=0),
    )
    rules = bench.rules
    if serves != FROZEN or not bench.entries or (rows >= rules.min_rows and users >= rules.min_users):
        return None
    text = (
        f"{rows} scored rows of at most {users} users in a window are too few; {rules.min_rows} rows and "
        f"{rules.min_users} users are needed"
    )
    return FROZEN, [Reason("too_few", "note", text)]


def _beaten(bench: "_SeriesView", serves: str) -> tuple[str, list[Reason]] | None:
    """Apply rule 2; return None if the serving method is not replaced."""
    worse, frozen = bench.against(serves, FALLBACK), bench.against(serves, FROZEN)
    if serves in (FROZEN, FALLBACK) or worse is None or frozen is None:
        return None
    if bench.beaten(worse):
        return FALLBACK, [_reason("worse_than_platt_eb", "pass", bench.words(worse, better=False), worse)]
    lately, ever = worse, bench.in_the_long_run(serves, FALLBACK)
    if lately.windows >= DOUBT_WINDOWS and lately.mean >= 0 and ever.mean >= 0:
        return FALLBACK, [_reason("no_better", "pass", bench.plainly(ever, "no better than"), ever)]
    if _clear(frozen, LONG_WAY, worse=True):
        return FROZEN, [_reason("worse_than_frozen", "pass", bench.words(frozen, better=False), frozen)]
    return None


def _behind_the_frozen_model(bench: "_SeriesView", serves: str) -> tuple[str, list[Reason]] | None:
    """Apply rule 3 to the windows that the method has served; return None if it stays."""
    found = bench.since_start(serves)
    if found is None or found.windows < SERVED_WINDOWS or not bench.beaten(found):
        return None
    text = f"since {serves} took over, {bench.words(found, better=False)}"
    return FROZEN, [_reason("worse_since_start", "pass", text, found)]


def _platt_or_frozen(bench: "_SeriesView", serves: str, platt: Statistic) -> tuple[str, Reason | None]:
    """Apply rules 5 and 6; the reason is None if the serving method stays."""
    ever, worse = bench.in_the_long_run(FALLBACK, FROZEN), _clear(platt, LONG_WAY, worse=True)
    if serves == FALLBACK and worse:
        return FROZEN, _reason("platt_eb_worse", "pass", bench.words(platt, better=False), platt)
    early = ever.windows < DOUBT_WINDOWS
    if serves == FROZEN and platt.mean < 0 and (early or (ever.mean < 0 and bench.ahead(platt))):
        return FALLBACK, _reason("platt_eb_better", "pass", bench.words(platt, better=True), platt)
    if serves == FROZEN and not worse and (platt.hold_out or platt.windows < LEAST_WINDOWS):
        text = (
            f"{FALLBACK} starts while fewer than {LEAST_WINDOWS} windows are scored: "
            f"{bench.plainly(platt, 'not clearly worse than')}; the frozen model returns once {FALLBACK} is "
            f"clearly ({share(LONG_WAY)}) worse, or behind over {SERVED_WINDOWS} windows that it served"
        )
        return FALLBACK, _reason("platt_eb_begins", "pass", text, platt)
    return serves, None


def _best(
    bench: "_SeriesView", serves: str, may_not: Mapping[str, str]
) -> tuple[tuple[str, list[Reason]] | None, list[Reason]]:
    """Apply rule 4; return the method that takes over, or None, and the reasons against the others."""
    rival = FALLBACK if serves == FROZEN else serves
    good: list[tuple[float, str]] = []
    notes: list[Reason] = []
    for method in bench.methods:
        if method in (FROZEN, FALLBACK, serves):
            continue
        platt, frozen = bench.against(method, FALLBACK), bench.against(method, FROZEN)
        over = bench.against(method, rival)
        if method in may_not:
            notes.append(Reason(f"may_not:{method}", "note", f"{method} is not chosen: {may_not[method]}"))
        elif platt is None or frozen is None or over is None:
            notes.append(Reason(f"no_number:{method}", "note", bench.why_no_number(method)))
        elif (
            all(bench.wins(each) for each in _compared(method, platt, over, frozen))
            and not _clear(frozen, LONG_WAY, worse=True)
            and (serves != FROZEN or frozen.mean < 0)
        ):
            good.append((over.mean, method))
        elif platt.windows < LEAST_WINDOWS or platt.hold_out:
            text = (
                f"{bench.plainly(platt, 'not plainly better than')}; with one window the difference must be "
                f"{PLAIN:g} standard errors ({number(platt.error)}) and {bench.rules.min_gain:g}"
            )
            notes.append(_reason(f"too_early:{method}", "note", text, platt))
        else:
            notes.append(_reason(f"not_better:{method}", "note", bench.not_better(over, platt, frozen), over))
    if not good:
        return None, notes
    lowest = min(good)[0]
    chosen = next(name for mean, name in good if mean <= lowest + bench.rules.min_gain)
    found = bench.against(chosen, rival)
    assert found is not None  # noqa: S101 - it was compared above
    others = [replace(note, effect="note") for note in notes]  # they no longer affect the verdict
    return (chosen, [_reason("better", "pass", bench.words(found, better=True), found), *others]), []


def _compared(method: str, *found: Statistic) -> tuple[Statistic, ...]:
    """Return the comparisons to win; that with the frozen model, the last, if the method has its level."""
    return found if not method_named(method).fits_link else found[:-1]


@dataclass(frozen=True)
class _SeriesView:
    """The entries, methods and rules of one decision."""

    entries: Sequence[Entry]
    methods: tuple[str, ...]
    rules: Decision
    last: int
    since: Window | None = None

    def against(self, method: str, reference: str) -> Statistic | None:
        """Return the statistic of two methods over the last windows; None without evidence."""
        return self._statistic(method, reference, min(self.last, LAST_WINDOWS))

    def in_the_long_run(self, method: str, reference: str) -> Statistic:
        """Return the statistic of two compared methods over all entries."""
        found = self._statistic(method, reference, self.last)
        assert found is not None  # noqa: S101 - they were compared over the last windows
        return found

    def since_start(self, serves: str) -> Statistic | None:
        """Compare the serving method with the frozen model over the evidence windows that it has served."""
        if serves == FROZEN or self.since is None:
            return None
        began = self.since.end
        own = [
            each for each in self.entries[-self.last :] if each.window.start >= began and not each.hold_out
        ]
        return statistic(own, serves, FROZEN, last=self.last, confidence=self.rules.confidence)

    def _statistic(self, method: str, reference: str, last: int) -> Statistic | None:
        if method == reference:
            return None
        return statistic(self.entries, method, reference, last=last, confidence=self.rules.confidence)

    @property
    def rivals(self) -> int:
        """The number of methods beyond ``platt_eb``, at least 1."""
        return max(1, len(set(self.methods) - {FROZEN, FALLBACK}))

    def wins(self, found: Statistic) -> bool:
        """Return True if a difference makes a method champion; the levels hold for all rivals together."""
        size = -found.mean
        if found.hold_out or found.windows < LEAST_WINDOWS:
            return size >= max(self.rules.min_gain, PLAIN * found.error)
        level = 1 - (1 - self.rules.confidence) / self.rivals
        ever = self.in_the_long_run(found.method, found.reference)
        large = size >= self.rules.min_gain and size >= _errors(self.rivals) * found.error
        return large or _clear(found, level, worse=False) or (size > 0 and _clear(ever, level, worse=False))

    def ahead(self, found: Statistic) -> bool:
        """Return True for large or clear better."""
        return self._large(-found.mean, found.error) or _clear(found, self.rules.confidence, worse=False)

    def beaten(self, found: Statistic) -> bool:
        """Return True for large or clear worse."""
        return self._large(found.mean, found.error) or _clear(found, self.rules.confidence, worse=True)

    def _large(self, size: float, error: float) -> bool:
        return size >= self.rules.min_gain and size >= error

    def words(self, found: Statistic, *, better: bool) -> str:
        """Describe a decisive comparison; without a clear difference, state that the interval includes 0."""
        if _clear(found, self.rules.confidence, worse=not better):
            return self.plainly(found, "better than" if better else "worse than")
        size = -found.mean if better else found.mean
        why = ""
        if self._large(size, found.error):
            why = (
                f", at least one standard error ({number(found.error)}) "
                f"and the least gain of {self.rules.min_gain:g}"
            )
        elif better and found.reference == FROZEN:
            why = (
                ". Against the frozen model the mean decides; the risk is the noise of two coefficients "
                f"until {found.method} is clearly ({share(LONG_WAY)}) worse, or behind over {SERVED_WINDOWS} "
                "windows that it served, and the frozen model serves again"
            )
        how = "ahead of" if better else "behind"
        return (
            f"{_who(found)} {how} {_than(found)} by {number(size)}{why}; the interval includes 0: "
            f"NLL {_interval(found)}"
        )

    def plainly(self, found: Statistic, how: str) -> str:
        """Describe one comparison with the words in ``how``."""
        return f"{_who(found)} {how} {_than(found)}: NLL {_interval(found)}"

    def not_better(self, *compared: Statistic) -> str:
        """Explain why a method does not take over: the first comparison that it does not win, or the last."""
        weak = next((each for each in compared if not self.wins(each)), compared[-1])
        same = weak.mean == 0 and weak.error == 0
        worse = _clear(weak, self.rules.confidence, worse=True)
        what = "the same as" if same else "worse than" if worse else "not clearly better than"
        return self.plainly(weak, what)

    def stays(self, serves: str) -> list[Reason]:
        """Return the reason for the method that keeps serving; empty without a statistic."""
        reference = FROZEN if serves == FALLBACK else FALLBACK
        found = self.against(serves, reference)
        if found is None:
            return []
        than = IN_WORDS.get(reference, reference)
        who = IN_WORDS.get(serves, serves)
        over = windows_in_words(found.windows, found.hold_out)
        if serves == FROZEN:
            text = f"over {over} {FALLBACK} was no better than {who}"
        else:
            text = f"{serves} stays: NLL {_interval(found)} against {than} over {over}"
        return [_reason("stays", "note", text, found)]

    def why_no_number(self, method: str) -> str:
        """Return the newest reason for a missing score."""
        for each in reversed(self.entries):
            if method in each.left_out:
                return f"{method} has no score on {each.window}: {each.left_out[method]}"
        return f"{method} has no score on any window"


def _errors(rivals: int) -> float:
    """Return the standard errors of a large difference: one for up to two rivals, more for a long list.

    >>> [round(_errors(rivals), 2) for rivals in (1, 2, 3, 10)]
    [1.0, 1.0, 1.25, 1.86]
    """
    from scipy.special import ndtri

    return max(1.0, float(ndtri(1 - BEYOND_ONE_ERROR / rivals)))


IN_WORDS = {FROZEN: "the frozen model", PLATT: "Platt"}


def _clear(found: Statistic, level: float, *, worse: bool) -> bool:
    return (found.mean if worse else -found.mean) > found.bound(level)


def windows_in_words(count: int, hold_out: bool = False) -> str:
    """Return the number of windows in words."""
    if hold_out:
        return "the later part of the first window"
    return "one window" if count == 1 else f"{count} windows"


def _who(found: Statistic) -> str:
    return f"over {windows_in_words(found.windows, found.hold_out)} {found.method} was"


def _than(found: Statistic) -> str:
    return IN_WORDS.get(found.reference, found.reference)


def _interval(found: Statistic) -> str:
    return interval(found.mean, found.low, found.high)


def _reason(code: str, effect: Effect, text: str, found: Statistic) -> Reason:
    return Reason(code, effect, text, found.mean, found.low, found.high)
