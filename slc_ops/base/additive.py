"""Sums over rows that add up: those of two parts are the sums of both."""

from typing import Any, Self


class Additive:
    """Add ``merge`` to a dataclass: every field adds up with that of further rows.

    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Found(Additive):
    ...     rows: int
    ...     examples: list[str]
    ...     by_name: dict[str, int]
    >>> found = Found(2, ["a"], {"x": 1})
    >>> found.merge(Found(3, ["b"], {"x": 1, "y": 5}))
    >>> found
    Found(rows=5, examples=['a', 'b'], by_name={'x': 2, 'y': 5})
    """

    def merge(self, other: Self) -> None:
        """Add the sums of further rows: numbers and arrays are added, lists appended, dictionaries by key."""
        for name, value in vars(other).items():
            setattr(self, name, _added(getattr(self, name), value))


def _added(one: Any, other: Any) -> Any:
    """Return the sum, in place where possible; None has nothing to add."""
    if one is None or other is None:
        return other if one is None else one
    if hasattr(one, "merge"):
        one.merge(other)
    elif isinstance(one, dict):
        for name, value in other.items():
            one[name] = _added(one.get(name), value)
    else:
        one += other
    return one
