"""Time limits of many short operations, with one timer for all of them.

A timer of its own would cost a request of one row about a tenth of its time.
"""

import asyncio
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Deadlines(Generic[Key]):
    """Call ``expire`` for each key that is open for longer than ``seconds``, at most an eighth too late."""

    def __init__(self, seconds: float, expire: Callable[[Key], object]) -> None:
        self._seconds, self._expire = seconds, expire
        self._open: dict[Key, float] = {}  # in order of time, because all keys have the same limit
        self._timer: asyncio.TimerHandle | None = None

    def open(self, key: Key) -> None:
        """Start the time of a key."""
        self._open[key] = time.monotonic() + self._seconds
        if self._timer is None:
            self._start()

    def close(self, key: Key) -> bool:
        """End the time of a key; return False if it has expired."""
        return self._open.pop(key, None) is not None

    def _start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._seconds / 8, self._check)

    def _check(self) -> None:
        now, self._timer = time.monotonic(), None
        for key in [key for key, until in self._open.items() if until <= now]:
            del self._open[key]
            self._expire(key)
        if self._open:
            self._start()
