"""Work in threads: a cache whose first caller computes while others wait, and values made ahead."""

import sys
import threading
from collections.abc import Callable, Generator, Hashable
from contextlib import closing
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

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
            return value  # type: ignore[no-any-return] # as stored

    def forget(self, wanted: Callable[[Any], bool]) -> None:
        """Drop the values whose names are ``wanted``; the next :meth:`get` computes them again."""
        with self._lock:
            for name in [name for name in self._values if wanted(name)]:
                self._values.pop(name, None)


class once(Generic[T]):  # noqa: N801 - a decorator
    """A property that is computed once, by the first thread that reads it; the object has ``_once``."""

    def __init__(self, work: Callable[[Any], T]) -> None:
        self._work, self.__doc__ = work, work.__doc__

    def __get__(self, owner: Any, kind: Any = None) -> T:
        kept: Once = owner._once
        return kept.get(self._work.__name__, lambda: self._work(owner))


def made_ahead(values: Generator[T, None, None], depth: int = 1) -> Generator[T, None, None]:
    """Yield the same values; a thread makes up to ``depth`` of them while the current one is in use.

    The generator is closed in that thread, also when the consumer stops early. The garbage collector may
    close an abandoned consumer at any time, also while its thread holds a lock of ``threading`` or of all
    executors. So there is no executor, and nothing waits for the end of a thread: simple queues need no lock.

    >>> list(made_ahead(k * k for k in range(4)))
    [0, 1, 4, 9]
    """
    wanted: SimpleQueue[bool] = SimpleQueue()
    made: SimpleQueue[tuple[Any, BaseException | None] | None] = SimpleQueue()

    def make() -> None:
        try:
            with closing(values):
                while wanted.get():
                    try:
                        made.put((next(values, _ABSENT), None))
                    except BaseException as error:
                        made.put((_ABSENT, error))
        finally:
            made.put(None)  # closed

    thread = threading.Thread(target=make, name="slc-ops-ahead", daemon=True)
    thread.start()
    try:
        for _ in range(depth):
            wanted.put(True)
        while (found := made.get()) is not None:
            value, error = found
            if error is not None:
                raise error
            if value is _ABSENT:
                return
            wanted.put(True)
            yield value
    finally:
        wanted.put(False)
        # When the interpreter ends, no other thread runs any more.
        if thread is not threading.current_thread() and not sys.is_finalizing():
            while made.get() is not None:
                pass
