"""Two methods at a time: a fit has stretches that only one thread can walk (sorting, item tables)."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from typing import TypeVar

from slc_ops.methods.fitting.options import FitOptions

SIDE_BY_SIDE = 2

T = TypeVar("T")


def shared_options(options: FitOptions) -> FitOptions:
    """The options of methods that run side by side: on two cores each method's passes keep to their own."""
    return replace(options, threads=1) if options.workers <= SIDE_BY_SIDE else options


def side_by_side(
    methods: Sequence[str], work: Callable[[str], T], workers: int = SIDE_BY_SIDE
) -> dict[str, T]:
    """``work`` of every method, by at most two threads; the first error ends it, what has not begun is left.

    >>> side_by_side(["platt", "slc"], len)
    {'platt': 5, 'slc': 3}
    """
    with ThreadPoolExecutor(min(SIDE_BY_SIDE, workers)) as pool:
        # The last of the ladder take longest, so they begin. Log lines name the step that they belong to.
        running = {method: pool.submit(copy_context().run, work, method) for method in reversed(methods)}
        try:
            return {method: running[method].result() for method in methods}
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
