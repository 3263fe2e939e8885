"""The reasons of a decision in sentences: which comparison decided, with its interval."""

from dataclasses import dataclass
from typing import Literal

from slc_ops.base.json_form import JsonForm
from slc_ops.base.methods import FALLBACK, FROZEN, PLATT
from slc_ops.base.text import interval, number, share
from slc_ops.evidence.differences import LEAST_WINDOWS, LONG_WAY, PLAIN, Differences
from slc_ops.evidence.series import Statistic

SERVED_WINDOWS = 6
"""Windows that a method must have served before they can retire it."""
IN_WORDS = {FROZEN: "the frozen model", PLATT: "Platt"}

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


def of(code: str, effect: Effect, sentence: str, found: Statistic) -> Reason:
    """Return the reason with the interval of its comparison."""
    return Reason(code, effect, sentence, found.mean, found.low, found.high)


def difference(found: Statistic, how: str) -> str:
    """Describe one comparison with the words in ``how``."""
    over = windows_in_words(found.windows, found.hold_out)
    return f"over {over} {found.method} was {how} {_than(found)}: NLL {_interval(found)}"


def better(seen: Differences, found: Statistic) -> str:
    """Describe a comparison that a method won; if it is not clear, say that the interval includes 0."""
    if found.clear(seen.rules.confidence, worse=False):
        return difference(found, "better than")
    why = ""
    if seen.large(-found.mean, found.error):
        why = _large(seen, found)
    elif found.reference == FROZEN:
        why = (
            ". Against the frozen model the mean decides; the risk is the noise of two coefficients "
            f"until {found.method} is clearly ({share(LONG_WAY)}) worse, or behind over {SERVED_WINDOWS} "
            "windows that it served, and the frozen model serves again"
        )
    return _includes_zero(found, f"ahead of {_than(found)} by {number(-found.mean)}{why}")


def worse(seen: Differences, found: Statistic) -> str:
    """Describe a comparison that a method lost; if it is not clear, say that the interval includes 0."""
    if found.clear(seen.rules.confidence, worse=True):
        return difference(found, "worse than")
    why = _large(seen, found) if seen.large(found.mean, found.error) else ""
    return _includes_zero(found, f"behind {_than(found)} by {number(found.mean)}{why}")


def begins(found: Statistic) -> str:
    """Explain why ``platt_eb`` starts before the windows suffice for a comparison."""
    return (
        f"{FALLBACK} starts while fewer than {LEAST_WINDOWS} windows are scored: "
        f"{difference(found, 'not clearly worse than')}; the frozen model returns once {FALLBACK} is "
        f"clearly ({share(LONG_WAY)}) worse, or behind over {SERVED_WINDOWS} windows that it served"
    )


def too_early(seen: Differences, found: Statistic) -> str:
    """Explain why a method does not take over after one window."""
    return (
        f"{difference(found, 'not plainly better than')}; with one window the difference must be "
        f"{PLAIN:g} standard errors ({number(found.error)}) and {seen.rules.min_gain:g}"
    )


def not_better(seen: Differences, *compared: Statistic) -> str:
    """Explain why a method does not take over: the first comparison that it does not win, or the last."""
    weak = next((each for each in compared if not seen.wins(each)), compared[-1])
    same = weak.mean == 0 and weak.error == 0
    lost = weak.clear(seen.rules.confidence, worse=True)
    return difference(weak, "the same as" if same else "worse than" if lost else "not clearly better than")


def stays(seen: Differences, serves: str) -> list[Reason]:
    """Return the reason for the method that keeps serving; empty without a statistic."""
    found = seen.against(serves, FROZEN if serves == FALLBACK else FALLBACK)
    if found is None:
        return []
    over = windows_in_words(found.windows, found.hold_out)
    if serves == FROZEN:
        text = f"over {over} {FALLBACK} was no better than {IN_WORDS[FROZEN]}"
    else:
        text = f"{serves} stays: NLL {_interval(found)} against {_than(found)} over {over}"
    return [of("stays", "note", text, found)]


def no_score(seen: Differences, method: str) -> str:
    """Return the newest reason for a missing score."""
    for each in reversed(seen.entries):
        if method in each.left_out:
            return f"{method} has no score on {each.window}: {each.left_out[method]}"
    return f"{method} has no score on any window"


def windows_in_words(count: int, hold_out: bool = False) -> str:
    """Return the number of windows in words."""
    if hold_out:
        return "the later part of the first window"
    return "one window" if count == 1 else f"{count} windows"


def _includes_zero(found: Statistic, how: str) -> str:
    over = windows_in_words(found.windows, found.hold_out)
    return f"over {over} {found.method} was {how}; the interval includes 0: NLL {_interval(found)}"


def _large(seen: Differences, found: Statistic) -> str:
    return (
        f", at least one standard error ({number(found.error)}) and the least gain of {seen.rules.min_gain:g}"
    )


def _than(found: Statistic) -> str:
    return IN_WORDS.get(found.reference, found.reference)


def _interval(found: Statistic) -> str:
    return interval(found.mean, found.low, found.high)
