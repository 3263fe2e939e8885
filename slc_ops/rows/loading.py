"""Reading: the columns of a source, checked against the log's contract, into stores of known types.

Item and user ids become dictionary codes on the way. Nothing is kept here: whoever asks keeps the answer.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

from slc_ops.base.errors import InputError
from slc_ops.rows import columns as contract
from slc_ops.rows.encoding import IdEncoder
from slc_ops.rows.reading import Source, converted
from slc_ops.rows.store import ColumnStore


@dataclass(frozen=True)
class Loaded:
    """What every fit needs of the rows, the items behind their codes, and event times where asked for."""

    rows: ColumnStore
    items: pa.Array
    times: ColumnStore | None


class Loader:
    """One source under the names that it gives to the contract's columns.

    ``rename`` maps a contract's column to the source's; stores above ``budget`` bytes go to temporary files.
    A source without rows or without the columns that every fit needs is refused with an
    :class:`InputError`.
    """

    def __init__(self, source: Source, rename: Mapping[str, str], budget: int) -> None:
        check_columns(source, rename)
        self.source, self.rename, self._budget = source, dict(rename), budget

    def has(self, column: str) -> bool:
        """Whether the source has this column of the contract."""
        return self.rename.get(column, column) in self.source.types

    def called(self, column: str) -> str:
        """What the source calls a column of the contract."""
        if column == "logit" and not self.has("logit"):
            column = "probability"
        return self.rename.get(column, column)

    def rows(self, *, times: bool = False) -> Loaded:
        """Codes, labels, logits and weights; with ``times`` one pass brings event times too."""
        source, n_rows = self.source, self.source.n_rows
        score, weighted = "logit" if self.has("logit") else "probability", self.has("weight")
        names = ["item_id", "label", score] + (["weight"] if weighted else [])
        types: dict[str, DTypeLike] = {"code": np.int32, "label": np.int8, "logit": self._float_type(score)}
        if weighted:
            types["weight"] = self._float_type("weight")
        store, time_store = ColumnStore(n_rows, types, self._budget), None
        if times and self.has("event_time"):
            names.append("event_time")
            time_store = self._time_store(store)

        def keep_numbers(batch: pa.RecordBatch, first: int) -> None:
            store.write("label", first, self._checked(contract.as_labels, batch.column(1), first))
            store.write("logit", first, self._checked(contract.as_logits, batch.column(2), first, score))
            if weighted:
                store.write("weight", first, self._checked(contract.as_weights, batch.column(3), first))
            if time_store is not None:
                column = batch.column(batch.num_columns - 1)
                time_store.write("time", first, self._checked(contract.as_times, column, first))

        encoder, first, settled = IdEncoder(), 0, 0
        with ThreadPoolExecutor(1) as beside:  # numbers are copied while ids are looked up
            for batch in source.batches([self.rename.get(name, name) for name in names]):
                last, numbers = first + batch.num_rows, beside.submit(keep_numbers, batch, first)
                ids = self._checked(contract.as_ids, batch.column(0), first, "item_id")
                store.write("code", first, encoder.add(ids))
                if encoder.overdue:
                    settled = _settle(encoder, store, "code", settled, last)
                numbers.result()
                first = last
        _settle(encoder, store, "code", settled, first)
        return Loaded(store, encoder.values, time_store)

    def times(self, rows: ColumnStore) -> ColumnStore:
        """Event times, to be kept beside the rows: both share the budget."""
        store = self._time_store(rows)
        for first, column in self.pieces("event_time"):
            store.write("time", first, self._checked(contract.as_times, column, first))
        return store

    def users(self) -> tuple[NDArray[np.int32], pa.Array]:
        """The user of each row as a code, and the users in the order of appearance."""
        n_rows, encoder = self.source.n_rows, IdEncoder()
        store, settled, last = ColumnStore(n_rows, {"user": np.int32}, n_rows * 4), 0, 0
        for first, ids in self.user_ids():
            store.write("user", first, encoder.add(ids))
            last = first + len(ids)
            if encoder.overdue:
                settled = _settle(encoder, store, "user", settled, last)
        _settle(encoder, store, "user", settled, last)
        return store.read("user", 0, n_rows), encoder.values

    def user_ids(self) -> Iterator[tuple[int, pa.Array]]:
        """The user of each row, piece by piece, and the number of the piece's first row."""
        for first, piece in self.pieces("user_id"):
            yield first, self._checked(contract.as_ids, piece, first, "user_id")

    def pieces(self, name: str) -> Iterator[tuple[int, pa.Array]]:
        """One column as it is, piece by piece, and the number of the piece's first row."""
        first = 0
        for batch in self.source.batches([self.rename.get(name, name)]):
            yield first, batch.column(0)
            first += batch.num_rows

    def _time_store(self, rows: ColumnStore) -> ColumnStore:
        left = self._budget if rows.spilled else self._budget - rows.nbytes
        return ColumnStore(self.source.n_rows, {"time": np.float64}, left)

    def _float_type(self, name: str) -> DTypeLike:
        kind = self.source.types[self.rename.get(name, name)]
        small = name != "probability" and (pa.types.is_float32(kind) or pa.types.is_float16(kind))
        return np.float32 if small else np.float64

    def _checked(self, convert: Callable[..., Any], column: pa.Array, first: int, name: str = "") -> Any:
        return converted(self.source, self.rename, convert, column, first, name)


def _settle(encoder: IdEncoder, store: ColumnStore, name: str, first: int, last: int) -> int:
    mapping = encoder.settle()
    if mapping is not None:
        store.translate(name, first, last, mapping)
    return last


def check_columns(source: Source, rename: Mapping[str, str]) -> None:
    """Refuse a source without rows or without the columns that every fit needs."""
    unknown = sorted(set(rename) - set(contract.CONTRACT_COLUMNS))
    if unknown:
        raise InputError(
            f"cannot rename to {', '.join(unknown)}: the log's contract knows "
            f"{', '.join(contract.CONTRACT_COLUMNS)}"
        )
    absent = sorted(set(rename.values()) - set(source.types))
    if absent:
        raise InputError(
            f"{source.describe()} has no column {', '.join(absent)} to rename; it has "
            f"{', '.join(source.types)}"
        )
    missing = contract.missing_columns(source.types, rename)
    if missing:
        raise InputError(
            f"{source.describe()} has no column {' and no column '.join(missing)}; it has "
            f"{', '.join(source.types)} (rename with --map item_id=your_name)"
        )
    if source.n_rows == 0:
        raise InputError(f"{source.describe()} has no rows; expected at least one")
