"""Rows, and the protocols of their holders: sums of a kernel, local or on a cluster."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slc_ops.rows.passes import Partial, Totals, add_up, span_for

if TYPE_CHECKING:
    from slc_ops.rows.interactions import InteractionLog

Floats = NDArray[np.float64]
Columns = Set[Literal["time", "user", "group"]]  # columns of a pass beside code, label, logit and weight
NO_COLUMNS: Columns = frozenset()
TIME: Columns = frozenset({"time"})
NO_LATER_ROW = "no row of {} is later than the timestamp at which it is cut: they share one event_time"


@dataclass(frozen=True)
class Rows:
    """Consecutive rows: item codes, 0/1 labels, logits, weights if present; other columns on request."""

    codes: NDArray[np.int32]
    label: NDArray[np.int8]
    logit: NDArray[np.floating]
    weight: NDArray[np.floating] | None = None
    time: Floats | None = None
    user: NDArray[np.integer] | None = None
    group: NDArray[np.integer] | None = None
    """Codes of groups, −1 where a row has none."""

    def __len__(self) -> int:
        return len(self.codes)

    def chosen(self, rows: slice | NDArray[Any]) -> "Rows":
        """Return some of the rows, by a slice (without a copy), a mask or their indices."""
        columns: dict[str, Any] = {
            name: None if values is None else values[rows] for name, values in vars(self).items()
        }
        return Rows(**columns)


def joined(parts: Sequence[Rows]) -> Rows:
    """Concatenate rows with the same columns."""
    columns: dict[str, Any] = {
        name: None if values is None else np.concatenate([getattr(part, name) for part in parts])
        for name, values in vars(parts[0]).items()
    }
    return Rows(**columns)


def rows_per_item(size: int, rows: Rows) -> Totals:
    """Count the rows with positive weight, by item."""
    codes = rows.codes if rows.weight is None else rows.codes[rows.weight > 0]
    return Totals(np.bincount(codes, minlength=size).astype(np.float64))


Kernel = Callable[[Rows], Partial]


class Needs(TypedDict, total=False):
    """Requirements of a pass: additional columns, the length of its sums, rows per span."""

    columns: Columns
    n_keys: int
    span_rows: int | None


class RowSource(Protocol):
    """Rows that can be summed over, local or on a cluster."""

    @property
    def n_rows(self) -> int: ...

    def add_up(self, kernel: Kernel[Partial], *, threads: int = 1, **needs: Unpack[Needs]) -> Partial:
        """Return the kernel's sums over all rows, computed span by span.

        A kernel is a pure function of its rows: for rows on a cluster, it is sent there.
        """
        ...


class InSpans(ABC):
    """Sums over rows that can be read here: span by span, by threads, in a fixed order."""

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def rows(self, first: int, last: int, columns: Columns = NO_COLUMNS) -> Rows:
        """Return rows ``first`` to ``last`` (exclusive), with the requested columns."""

    def add_up(self, kernel: Kernel[Partial], *, threads: int = 1, **needs: Unpack[Needs]) -> Partial:
        """Return the kernel's sums over all rows (see :class:`RowSource`)."""

        columns = needs.get("columns", NO_COLUMNS)

        def work(first: int, last: int) -> Partial:
            return kernel(self.rows(first, last, columns))

        return add_up(work, self.n_rows, threads, needs.get("span_rows") or span_for(needs.get("n_keys", 1)))


class ReadableRows(Protocol):
    """Rows that can be read here: a log of this process, or one split of a log on a cluster."""

    @property
    def n_rows(self) -> int: ...

    @property
    def items(self) -> pa.Array:
        """Return the items of the whole log; code ``k`` means ``items[k]``."""
        ...

    def rows(self, first: int, last: int, columns: Columns = NO_COLUMNS) -> Rows: ...

    def user_ids(self) -> Iterator[tuple[int, pa.Array]]:
        """Yield the first row number and the users of each batch."""
        ...


class Log(RowSource, Protocol):
    """Validated rows of the log's contract, in this process (:class:`InteractionLog`) or on a cluster."""

    items: pa.Array

    @property
    def item_counts(self) -> NDArray[np.int64]: ...

    @property
    def users(self) -> pa.Array | None: ...

    @property
    def groups(self) -> pa.Array | None: ...

    @property
    def weighted(self) -> bool: ...

    @property
    def backbone_versions(self) -> tuple[str, ...]: ...

    def has(self, column: str) -> bool: ...

    def describe(self) -> str: ...

    def in_memory(self) -> "InteractionLog | None":
        """Return all rows as a log in this process; None when they are too many."""
        ...

    def sample(self, firsts: Sequence[int], length: int, columns: Columns = NO_COLUMNS) -> list[Rows]: ...

    def cut(self, timestamp: float) -> "tuple[Log, Log]":
        """Return the rows up to and including a timestamp, and the rows after it; raise if none is later."""
        ...

    def over_splits(
        self, work: Callable[[ReadableRows], Partial], *, columns: Columns = NO_COLUMNS
    ) -> Partial:
        """Return the sum of ``work`` over all splits, in row order, computed where they can be read.

        ``columns`` are those of which ``work`` uses the whole log's codes.
        """
        ...
