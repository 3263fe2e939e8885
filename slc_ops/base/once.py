"""A cache for several threads: the first caller computes a value, the others wait."""

import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")
_ABSENT = object()


class Once:
    """Values by name, each computed once.

    >>> kept = Once()
    >>> kept.get("answer", lambda: 42), kept.get("answer", lambda: 43)
    (42, 42)

    After an exception the next caller computes the value. ``work`` may get other values, not its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[Hashable, threading.Lock] = {}
        self._values: dict[Hashable, Any] = {}

    def get(self, name: Hashable, work: Callable[[], T]) -> T:
        """Return the value of ``name``; call ``work`` when there is none."""
        with self._lock:
            own = self._locks.setdefault(name, threading.Lock())
        with own:
            value = self._values.get(name, _ABSENT)
            if value is _ABSENT:
                value = self._values[name] = work()
            return value  # type: ignore[no-any-return]

    def forget(self, wanted: Callable[[Any], bool]) -> None:
        """Drop the values whose names are ``wanted``; the next :meth:`get` computes them again."""
        with self._lock:
            for name in [name for name in self._values if wanted(name)]:
                self._values.pop(name, None)
