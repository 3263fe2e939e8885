"""Number formats for people: one minus sign, one dash for a missing value, one form of an interval.

Every page, table and message formats its numbers here; JSON keeps them unformatted.
"""

from collections.abc import Callable

from slc_ops.base.methods import METHODS

MISSING = "–"


def number(value: float | None, digits: int = 4) -> str:
    """Format a figure with ``digits`` decimals; None gives a dash.

    >>> number(0.61234), number(-1.5, 1), number(None)
    ('0.6123', '−1.5', '–')
    """
    return MISSING if value is None else _minus(f"{value + 0.0:.{digits}f}")  # -0.0 + 0.0 is 0.0


def signed(value: float | None, digits: int = 4) -> str:
    """Format a difference with its sign.

    >>> signed(-0.01), signed(-0.0)
    ('−0.0100', '+0.0000')
    """
    return MISSING if value is None else _minus(f"{value + 0.0:+.{digits}f}")


def points(value: float | None) -> str:
    """Format a difference of shares or AUCs in percentage points, with its sign.

    >>> points(0.0123)
    '+1.23'
    """
    return signed(None if value is None else 100 * value, 2)


def interval(
    estimate: float | None,
    low: float | None = None,
    high: float | None = None,
    reason: str | None = None,
    *,
    form: Callable[[float | None], str] = signed,
) -> str:
    """Format an estimate with its interval; without an interval, with the reason.

    >>> interval(0.012, 0.01, 0.014)
    '+0.0120 [+0.0100, +0.0140]'
    >>> interval(0.012, reason="six users"), interval(None, reason="one class only"), interval(None)
    ('+0.0120 (six users)', 'one class only', '–')
    >>> interval(-0.012, -0.014, -0.01, form=points)
    '−1.20 [−1.40, −1.00]'
    """
    if estimate is None:
        return reason or MISSING
    if low is None or high is None:
        return f"{form(estimate)} ({reason})" if reason else form(estimate)
    return f"{form(estimate)} [{form(low)}, {form(high)}]"


def share(value: float | None, digits: int = 0) -> str:
    """Format a share in per cent.

    >>> share(0.5), share(0.0312, 1)
    ('50%', '3.1%')
    """
    return MISSING if value is None else f"{value:.{digits}%}"


def count(value: float | None, digits: int = 0) -> str:
    """Format a count with thousands separators.

    >>> count(1234567), count(12.345, 1)
    ('1,234,567', '12.3')
    """
    return MISSING if value is None else f"{value:,.{digits}f}"


def as_sentence(text: str) -> str:
    """Capitalise the first letter, unless the text starts with the name of a method.

    >>> as_sentence("over 4 windows it won"), as_sentence("slc_t is not chosen")
    ('Over 4 windows it won', 'slc_t is not chosen')
    """
    named = text.partition(" ")[0] in METHODS
    return text if named else text[:1].upper() + text[1:]


def _minus(text: str) -> str:
    return text.replace("-", "−")
