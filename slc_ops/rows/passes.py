"""One pass over the rows: spans in parallel, their sums added in a fixed order.

A pass is a *kernel*, a pure function from consecutive rows to small sums that add up; a holder of rows offers
``add_up(kernel)``. Here the holder is a log in this process; in :mod:`slc_ops.engines.spark` it is a log on a
cluster. The kernels are the same.

The start of a span depends on the row number alone, and the order of addition never depends on the number of
threads: the same rows give the same bytes on one core and on sixty-four, for any batches of the file.

Threads persist between passes, because their warmed-up memory is expensive to create.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from slc_ops.base.additive import Additive

SPAN_ROWS = 1 << 18
SAMPLE_ROWS = 1 << 15
SAMPLE_SHARE = 8  # one slice in eight is sampled, up to
SAMPLE_SLICES = 64  # this many, which are two million rows

Result = TypeVar("Result")
Piece = TypeVar("Piece")
Partial = TypeVar("Partial", bound="Addable")

_pools: dict[int, ThreadPoolExecutor] = {}
# A forked child inherits the executors without their threads and must start its own.
os.register_at_fork(after_in_child=_pools.clear)


class Addable(Protocol):
    """Partial sums that merge."""

    def merge(self: Partial, other: Partial) -> None: ...


@dataclass
class Totals(Additive):
    """An array of numbers that add up."""

    values: NDArray[np.float64]


@dataclass
class Pieces(Additive, Generic[Piece]):
    """Parts to collect in row order: a sample, or the rows of a small log."""

    all: list[Piece]


def workers(threads: int | None) -> int:
    """Return the number of threads: as given, otherwise one per core this process may run on."""
    return threads or len(os.sched_getaffinity(0))


def span_for(n_keys: int) -> int:
    """Return the rows of a span: sums per key have a cost per span, so many keys need longer spans."""
    return SPAN_ROWS if n_keys <= 1 << 16 else 4 * SPAN_ROWS if n_keys <= 1 << 20 else 16 * SPAN_ROWS


def evenly_spaced(n_rows: int) -> tuple[list[int], int]:
    """Return the first rows of a sample's slices and their length; a small log is its own sample.

    >>> evenly_spaced(1000)
    ([0], 1000)
    >>> evenly_spaced(1 << 20)
    ([0, 262144, 524288, 786432], 32768)
    """
    slices = n_rows // SAMPLE_ROWS
    if slices < 2 * SAMPLE_SHARE:
        return [0], n_rows
    count = min(slices // SAMPLE_SHARE, SAMPLE_SLICES)
    return [k * slices // count * SAMPLE_ROWS for k in range(count)], SAMPLE_ROWS


def in_spans(
    work: Callable[[int, int], Result], n_rows: int, threads: int, span_rows: int = SPAN_ROWS
) -> Iterator[Result]:
    """Yield ``work(first, last)`` for consecutive spans in order, computed by threads a bounded number ahead.

    ``work`` must not start a pass of its own.

    >>> list(in_spans(lambda first, last: (first, last), 5, threads=2, span_rows=2))
    [(0, 2), (2, 4), (4, 5)]
    """
    spans = [(first, min(first + span_rows, n_rows)) for first in range(0, n_rows, span_rows)]
    if threads == 1 or len(spans) == 1:
        yield from (work(first, last) for first, last in spans)
        return
    pool = _pools.setdefault(threads, ThreadPoolExecutor(threads, thread_name_prefix="slc-ops-pass"))
    ahead: deque[Future[Result]] = deque()
    try:
        for first, last in spans:
            ahead.append(pool.submit(work, first, last))
            if len(ahead) > threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        for future in ahead:
            future.cancel()


def add_up(
    work: Callable[[int, int], Partial], n_rows: int, threads: int, span_rows: int = SPAN_ROWS
) -> Partial:
    """Return the sum of ``work`` over all spans, added from the first to the last."""
    spans = in_spans(work, n_rows, threads, span_rows)
    total = next(spans)
    for part in spans:
        total.merge(part)
    return total
