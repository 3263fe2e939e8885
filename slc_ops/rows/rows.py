"""Rows, and what can be asked of whoever holds them: sums of a kernel, wherever the rows lie."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slc_ops.rows.passes import Partial, Totals, add_up, span_for

if TYPE_CHECKING:
    from slc_ops.rows.interactions import InteractionLog

Floats = NDArray[np.float64]
SLICE_COLUMNS = {"group": "group_id"}
"""Columns that cut rows into slices, and their names in the contract: a pass gets their codes."""
Columns = Set[Literal["time", "user", "group"]]  # what a pass asks for beside code, label, logit and weight
NO_COLUMNS: Columns = frozenset()
TIME: Columns = frozenset({"time"})
NO_LATER_ROW = "no row of {} is later than the timestamp at which it is cut: they share one event_time"


@dataclass(frozen=True)
class Rows:
    """Consecutive rows: item codes, 0/1 labels, logits, weights if there are any; the rest if asked for.

    ``extra`` has the codes of slice columns by name, −1 where a row has no value.
    """

    codes: NDArray[np.int32]
    label: NDArray[np.int8]
    logit: NDArray[np.floating]
    weight: NDArray[np.floating] | None = None
    time: Floats | None = None
    user: NDArray[np.integer] | None = None
    extra: Mapping[str, NDArray[np.integer]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.codes)

    def chosen(self, rows: slice | NDArray[Any]) -> "Rows":
        """Some of the rows, by a slice (without a copy), a mask or their indices."""
        return _each(lambda values: values[0][rows], [self])

    @property
    def group(self) -> NDArray[np.integer] | None:
        """The codes of groups; None where they were not asked for or the log has none."""
        return self.extra.get("group")


def joined(parts: Sequence[Rows]) -> Rows:
    """Rows one after the other, as one."""
    return _each(np.concatenate, parts)


def _each(make: Callable[[list[Any]], Any], parts: Sequence[Rows]) -> Rows:
    """Rows whose columns are made of those of some rows that have the same columns."""
    columns: dict[str, Any] = {}
    for each in fields(Rows)[:-1]:
        values = [getattr(part, each.name) for part in parts]
        columns[each.name] = None if values[0] is None else make(values)
    extra = {name: make([part.extra[name] for part in parts]) for name in parts[0].extra}
    return Rows(**columns, extra=extra)


def rows_per_item(size: int, rows: Rows) -> Totals:
    """Rows that count, by item."""
    codes = rows.codes if rows.weight is None else rows.codes[rows.weight > 0]
    return Totals(np.bincount(codes, minlength=size).astype(np.float64))


Kernel = Callable[[Rows], Partial]


class Needs(TypedDict, total=False):
    """What a pass needs: columns beside the usual ones, the length of its sums, rows worked on together."""

    columns: Columns
    n_keys: int
    span_rows: int | None


class RowSource(Protocol):
    """Rows that sums can be taken over, wherever they lie."""

    @property
    def n_rows(self) -> int: ...

    def add_up(self, kernel: Kernel[Partial], *, threads: int = 1, **needs: Unpack[Needs]) -> Partial:
        """The kernel's sums over all rows, which it is shown span by span.

        A kernel is a pure function of its rows: where the rows lie on a cluster, it is sent there.
        """
        ...


class InSpans(ABC):
    """The one way to sum over rows that can be read here: span by span, by threads, in a fixed order."""

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """How many rows."""

    @abstractmethod
    def rows(self, first: int, last: int, columns: Columns = NO_COLUMNS) -> Rows:
        """Rows ``first`` to ``last`` (exclusive), with the columns that are asked for."""

    def add_up(self, kernel: Kernel[Partial], *, threads: int = 1, **needs: Unpack[Needs]) -> Partial:
        """The kernel's sums over all rows (see :class:`RowSource`)."""

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
        """The items of the whole log; code ``k`` means ``items[k]``."""
        ...

    def rows(self, first: int, last: int, columns: Columns = NO_COLUMNS) -> Rows: ...

    def user_ids(self) -> Iterator[tuple[int, pa.Array]]:
        """The user of each row, piece by piece, and the number of the piece's first row."""
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
        """All rows as a log in this process, where they are few enough to be held at once."""
        ...

    def sample(self, firsts: Sequence[int], length: int, columns: Columns = NO_COLUMNS) -> list[Rows]: ...

    def cut(self, timestamp: float) -> "tuple[Log, Log]":
        """The rows up to and including a timestamp, and the rows after it; there must be some."""
        ...

    def over_splits(
        self, work: Callable[[ReadableRows], Partial], *, columns: Columns = NO_COLUMNS
    ) -> Partial:
        """The sum of what ``work`` makes of all rows, wherever they can be read, in their order.

        ``columns`` are those whose codes of the whole log it looks at.
        """
        ...
