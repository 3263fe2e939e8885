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
   also if the method has four windows and its mean is not better, neither over the last windows nor in the
   long run. If the method is clear (99 %) worse than the frozen model, there is no champion.
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
from dataclasses import dataclass
from typing import Any

from slc_ops.base.json_form import JsonForm
from slc_ops.base.methods import FALLBACK, FROZEN, ladder, may_serve, method_named
from slc_ops.base.window import Window
from slc_ops.evidence import reasons
from slc_ops.evidence.differences import LEAST_WINDOWS, LONG_WAY, Differences
from slc_ops.evidence.reasons import SERVED_WINDOWS, Reason
from slc_ops.evidence.series import Entry, Statistic
from slc_ops.settings.blocks import Decision

DOUBT_WINDOWS = 4
"""With so many windows, a method that is not better than a simpler one is replaced by it."""


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
    ``platt_eb``, which replaces it, and its windows since it took over do not count (they were not
    ``platt_eb``'s). ``may_not`` maps excluded methods to reasons. ``since`` is the window after which the
    current method took over.
    """
    methods = may_serve(listed)
    unlisted = current not in methods
    serves = FALLBACK if unlisted else current
    seen = Differences(entries, methods, rules, evidence_windows, None if unlisted else since)
    notes: list[Reason] = []
    if unlisted:
        text = f"{current} serves, but is not among the deployment's methods; {FALLBACK} takes its place"
        notes.append(Reason("unlisted", "pass", text))
    if may_not and serves in may_not:
        notes.append(Reason("may_not", "note", f"{serves} serves, though {may_not[serves]}"))
    method, said = _early(seen, serves) or _step(seen, serves, may_not or {})
    steps = ladder(listed)
    statistics = {
        m: {r: found for r in steps if r != m and (found := seen.against(m, r)) is not None}
        for m in steps
        if m != FROZEN
    }
    return MethodDecision(current, method, (*notes, *said), statistics, seen.since_start(current))


def is_ahead(entries: Sequence[Entry], method: str) -> bool:
    """Return True if a method is large or clear better than ``platt_eb`` over the last eight entries."""
    seen = Differences(entries, (method,), Decision(), 8)
    found = seen.against(method, FALLBACK)
    return found is not None and seen.ahead(found)


def _step(seen: Differences, serves: str, may_not: Mapping[str, str]) -> tuple[str, list[Reason]]:
    """Apply rules 2 to 6; return the method and the reasons."""
    if (beaten := _beaten(seen, serves) or _behind_the_frozen_model(seen, serves)) is not None:
        return beaten
    best, notes = _best(seen, serves, may_not)
    if best is not None:
        return best, notes
    platt = seen.against(FALLBACK, FROZEN)
    if platt is None:
        nothing = Reason("no_evidence", "note", f"no window compares {FALLBACK} with the frozen model")
        return serves, [*notes, nothing]
    method, reason = _platt_or_frozen(seen, serves, platt)
    return method, [*notes, *reasons.stays(seen, serves)] if reason is None else [reason, *notes]


def _early(seen: Differences, serves: str) -> tuple[str, list[Reason]] | None:
    """Apply rule 1; return None with enough rows and users, without entries and with a champion."""
    rows = sum(each.rows for each in seen.entries)
    users = max((each.users for each in seen.entries), default=0)
    rules = seen.rules
    if serves != FROZEN or not seen.entries or (rows >= rules.min_rows and users >= rules.min_users):
        return None
    text = (
        f"{rows} scored rows of at most {users} users in a window are too few; {rules.min_rows} rows and "
        f"{rules.min_users} users are needed"
    )
    return FROZEN, [Reason("too_few", "note", text)]


def _beaten(seen: Differences, serves: str) -> tuple[str, list[Reason]] | None:
    """Apply rule 2; return None if the serving method is not replaced."""
    worse, frozen = seen.against(serves, FALLBACK), seen.against(serves, FROZEN)
    if serves in (FROZEN, FALLBACK) or worse is None or frozen is None:
        return None
    if seen.beaten(worse):
        return FALLBACK, [reasons.of("worse_than_platt_eb", "pass", reasons.worse(seen, worse), worse)]
    ever = seen.in_the_long_run(serves, FALLBACK)
    if worse.windows >= DOUBT_WINDOWS and worse.mean >= 0 and ever.mean >= 0:
        return FALLBACK, [reasons.of("no_better", "pass", reasons.difference(ever, "no better than"), ever)]
    if frozen.clear(LONG_WAY, worse=True):
        return FROZEN, [reasons.of("worse_than_frozen", "pass", reasons.worse(seen, frozen), frozen)]
    return None


def _behind_the_frozen_model(seen: Differences, serves: str) -> tuple[str, list[Reason]] | None:
    """Apply rule 3 to the windows that the method has served; return None if it stays."""
    found = seen.since_start(serves)
    if found is None or found.windows < SERVED_WINDOWS or not seen.beaten(found):
        return None
    text = f"since {serves} took over, {reasons.worse(seen, found)}"
    return FROZEN, [reasons.of("worse_since_start", "pass", text, found)]


def _platt_or_frozen(seen: Differences, serves: str, platt: Statistic) -> tuple[str, Reason | None]:
    """Apply rules 5 and 6; the reason is None if the serving method stays."""
    ever, worse = seen.in_the_long_run(FALLBACK, FROZEN), platt.clear(LONG_WAY, worse=True)
    if serves == FALLBACK and worse:
        return FROZEN, reasons.of("platt_eb_worse", "pass", reasons.worse(seen, platt), platt)
    early = ever.windows < DOUBT_WINDOWS
    if serves == FROZEN and platt.mean < 0 and (early or (ever.mean < 0 and seen.ahead(platt))):
        return FALLBACK, reasons.of("platt_eb_better", "pass", reasons.better(seen, platt), platt)
    if serves == FROZEN and not worse and (platt.hold_out or platt.windows < LEAST_WINDOWS):
        return FALLBACK, reasons.of("platt_eb_begins", "pass", reasons.begins(platt), platt)
    return serves, None


def _best(seen: Differences, serves: str, may_not: Mapping[str, str]) -> tuple[str | None, list[Reason]]:
    """Apply rule 4; return the method that takes over, or None, and the reasons against the others."""
    rival = FALLBACK if serves == FROZEN else serves
    good: list[tuple[float, str]] = []
    notes: list[Reason] = []
    for method in seen.methods:
        if method in (FROZEN, FALLBACK, serves):
            continue
        platt, frozen = seen.against(method, FALLBACK), seen.against(method, FROZEN)
        over = seen.against(method, rival)
        if method in may_not:
            notes.append(Reason(f"may_not:{method}", "note", f"{method} is not chosen: {may_not[method]}"))
        elif platt is None or frozen is None or over is None:
            notes.append(Reason(f"no_number:{method}", "note", reasons.no_score(seen, method)))
        elif (
            all(seen.wins(each) for each in _compared(method, platt, over, frozen))
            and not frozen.clear(LONG_WAY, worse=True)
            and (serves != FROZEN or frozen.mean < 0)
        ):
            good.append((over.mean, method))
        elif platt.windows < LEAST_WINDOWS or platt.hold_out:
            text = reasons.too_early(seen, platt)
            notes.append(reasons.of(f"too_early:{method}", "note", text, platt))
        else:
            text = reasons.not_better(seen, over, platt, frozen)
            notes.append(reasons.of(f"not_better:{method}", "note", text, over))
    if not good:
        return None, notes
    lowest = min(good)[0]
    chosen = next(name for mean, name in good if mean <= lowest + seen.rules.min_gain)
    found = seen.against(chosen, rival)
    assert found is not None  # noqa: S101 - it was compared above
    return chosen, [reasons.of("better", "pass", reasons.better(seen, found), found), *notes]


def _compared(method: str, *found: Statistic) -> tuple[Statistic, ...]:
    """Return the comparisons to win; that with the frozen model, the last, if the method has its level."""
    return found if not method_named(method).fits_link else found[:-1]
