"""Shared by all databases: the window's bounds as values, the time limit, one-line errors."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from slc_ops.base.window import Window
from slc_ops.settings.sources import Mapped

BOUND = re.compile(r"(?<![:\w]):(window_start|window_end)\b")
"""A bound in a query; ``::window_start`` is a cast to a type of that name."""


def one_line(error: Exception | str) -> str:
    """Return an error or its text without colours, in one line of bounded length.

    >>> one_line(ValueError("no\\n  \x1b[31mtable\x1b[0m"))
    'no table'
    """
    text = str(getattr(error, "orig", None) or error)  # SQLAlchemy's text contains the whole query
    return " ".join(re.sub(r"\x1b\[\d+m|↳", "", text).split())[:300]


def bounds(source: Mapped, window: Window, *, text: bool = False) -> dict[str, Any]:
    """Return the bounds in the column's form: numbers, timestamps, or local times (``naive_time_zone``).

    ``text`` is for databases without time types.
    """
    return {
        "window_start": _bound(source, window.start, text=text),
        "window_end": _bound(source, window.end, text=text),
    }


def _bound(source: Mapped, timestamp: datetime, *, text: bool) -> Any:
    unit = {"s": 1, "ms": 1_000, "us": 1_000_000}.get(source.epoch_unit or "")
    if unit:
        return int(timestamp.timestamp()) * unit
    if source.naive_time_zone:
        timestamp = timestamp.astimezone(ZoneInfo(source.naive_time_zone)).replace(tzinfo=None)
    return timestamp.isoformat(sep=" ") if text else timestamp


class Patience:
    """Time limit of a database for the next rows; the consumer's time does not count.

    With ``whole`` the limit applies to all rows together.
    """

    def __init__(self, seconds: float, *, whole: bool = False) -> None:
        self.seconds, self.whole = seconds, whole
        self.until = time.monotonic() + seconds

    def with_each(self, parts: Iterator[Any]) -> Iterator[Any]:
        """Yield the parts; restart the limit after each, or continue it with ``whole``."""
        for part in parts:
            left = self.until - time.monotonic() if self.whole else self.seconds
            self.until = float("inf")
            yield part
            self.until = time.monotonic() + left

    def is_over(self) -> bool:
        """Return True after the limit."""
        return time.monotonic() > self.until


@contextmanager
def limited(patience: Patience, interrupt: Callable[[], object]) -> Iterator[None]:
    """Call ``interrupt`` from a thread after the limit, for databases without a time limit of their own."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(min(0.1, patience.seconds)):
            if patience.is_over():
                interrupt()
                return

    thread = threading.Thread(target=watch, name="slc-ops-patience", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
