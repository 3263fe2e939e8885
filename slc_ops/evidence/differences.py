"""What a difference between two methods over the series of windows can be: large, clear or plain.

:mod:`slc_ops.evidence.decision` has the words' definitions and the rules that use them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from slc_ops.base.methods import FALLBACK, FROZEN
from slc_ops.base.window import Window
from slc_ops.evidence.series import Entry, Statistic, statistic
from slc_ops.settings.blocks import Decision

LEAST_WINDOWS = 2
"""With fewer scored windows a difference must be plain."""
PLAIN = 3.0
"""Standard errors over users that a difference in one window needs."""
LAST_WINDOWS = 8
"""The windows that decide; the long run has all entries."""
LONG_WAY = 0.99
"""The confidence level for a return to the frozen model at once."""
BEYOND_ONE_ERROR = 0.3173
"""The probability of a difference of more than one standard error, in either direction."""


@dataclass(frozen=True)
class Differences:
    """The differences between methods; ``since`` is the window after which the current method took over."""

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
        return large or found.clear(level, worse=False) or (size > 0 and ever.clear(level, worse=False))

    def ahead(self, found: Statistic) -> bool:
        """Return True for large or clear better."""
        return self.large(-found.mean, found.error) or found.clear(self.rules.confidence, worse=False)

    def beaten(self, found: Statistic) -> bool:
        """Return True for large or clear worse."""
        return self.large(found.mean, found.error) or found.clear(self.rules.confidence, worse=True)

    def large(self, size: float, error: float) -> bool:
        """Return True for a size of at least the least gain and one standard error."""
        return size >= self.rules.min_gain and size >= error


def _errors(rivals: int) -> float:
    """Return the standard errors of a large difference: one for up to two rivals, more for a long list.

    >>> [round(_errors(rivals), 2) for rivals in (1, 2, 3, 10)]
    [1.0, 1.0, 1.25, 1.86]
    """
    from scipy.special import ndtri

    return max(1.0, float(ndtri(1 - BEYOND_ONE_ERROR / rivals)))
