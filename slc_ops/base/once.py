"""Values that several threads need: worked out by whoever asks first, while the others wait."""

import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")
_ABSENT = object()


class Once:
    """Values by name, each worked out once.

    >>> kept = Once()
    >>> kept.get("answer", lambda: 42), kept.get("answer", lambda: 43)
    (42, 42)

    Work that fails is done again by the next one who asks. Work may ask for other values, not for its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[Hashable, threading.Lock] = {}
        self._values: dict[Hashable, Any] = {}

    def get(self, name: Hashable, work: Callable[[], T]) -> T:
        """The value of this name."""
        with self._lock:
            own = self._locks.setdefault(name, threading.Lock())
        with own:
            value = self._values.get(name, _ABSENT)
            if value is _ABSENT:
                value = self._values[name] = work()
            return value  # type: ignore[no-any-return]

    def forget(self, wanted: Callable[[Any], bool]) -> None:
        """Let go of the values whose names are ``wanted``; who asks again works them out again."""
        with self._lock:
            for name in [name for name in self._values if wanted(name)]:
                self._values.pop(name, None)
