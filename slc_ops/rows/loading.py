"""Read columns of a source, validated against the log's contract, into typed ones.

Ids become codes. The loader caches nothing.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import DTypeLike, NDArray

from slc_ops.base.buffers import as_arrow, as_numpy
from slc_ops.base.errors import InputError
from slc_ops.base.ids import as_ids, numbered
from slc_ops.rows import columns as contract
from slc_ops.rows.reading import Source, converted, with_offsets
from slc_ops.rows.store import Column

IDS = ("item_id", "user_id")
MOST_WAITING = 1 << 20
NUMBERS: dict[str, Callable[..., NDArray[Any]]] = {
    "label": contract.as_labels,
    "logit": contract.as_logits,
    "weight": contract.as_weights,
    "event_time": contract.as_times,
}


class Loader:
    """One source, with the mapping of the contract's columns to its own.

    ``rename`` maps a contract's column to the source's. A source without rows or without the columns that
    every fit needs raises :class:`InputError`.
    """

    def __init__(self, source: Source, rename: Mapping[str, str]) -> None:
        check_columns(source, rename)
        self.source, self.rename = source, dict(rename)

    def has(self, column: str) -> bool:
        """Return True when the source has this column of the contract."""
        return self.rename.get(column, column) in self.source.types

    def called(self, column: str) -> str:
        """Return the source's name of a column of the contract."""
        return self.rename.get(self._score(column), self._score(column))

    def load(self, names: Sequence[str], budget: float) -> tuple[dict[str, Column], dict[str, pa.Array]]:
        """Read these columns in one pass, and the ids of their codes; above ``budget`` bytes into files.

        Items, users and groups become codes in order of first appearance; a missing group has code −1.
        """
        n_rows, types = self.source.n_rows, {name: np.dtype(self._type(name)) for name in names}
        spilled = n_rows * sum(kind.itemsize for kind in types.values()) > budget
        found = {name: Column(n_rows, kind, spilled=spilled) for name, kind in types.items()}
        ids = {name: Numbering(found[name]) for name in names if name not in NUMBERS}
        for first, batch in with_offsets(self.source.batches([self.called(name) for name in names])):
            for name, column in zip(names, batch.columns, strict=True):
                if name in ids:
                    ids[name].add(self._ids(name, column, first), first)
                else:
                    found[name].write(first, self._numbers(name, column, first))
        return found, {name: numbering.finish() for name, numbering in ids.items()}

    def user_ids(self) -> Iterator[tuple[int, pa.Array]]:
        """Yield the first row number and the users of each batch."""
        for first, piece in self.pieces("user_id"):
            yield first, converted(self.source, self.rename, as_ids, piece, first, "user_id")

    def pieces(self, name: str) -> Iterator[tuple[int, pa.Array]]:
        """Yield the first row number and the unconverted values of one column, batch by batch."""
        for first, batch in with_offsets(self.source.batches([self.called(name)])):
            yield first, batch.column(0)

    def _score(self, name: str) -> str:
        return "probability" if name == "logit" and not self.has("logit") else name

    def _numbers(self, name: str, column: pa.Array, first: int) -> NDArray[Any]:
        score = self._score(name) if name == "logit" else ""
        numbers: NDArray[Any] = converted(self.source, self.rename, NUMBERS[name], column, first, score)
        return numbers

    def _ids(self, name: str, column: pa.Array, first: int) -> pa.DictionaryArray:
        if name in IDS:
            column = converted(self.source, self.rename, as_ids, column, first, name)
        else:
            column = (column.dictionary_decode() if pa.types.is_dictionary(column.type) else column).cast(
                pa.string()
            )
        return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()

    def _type(self, name: str) -> DTypeLike:
        if name not in NUMBERS:
            return np.int32
        if name in ("label", "event_time"):
            return np.int8 if name == "label" else np.float64
        kind = self.source.types[self.called(name)]
        small = self._score(name) != "probability" and (
            pa.types.is_float32(kind) or pa.types.is_float16(kind)
        )
        return np.float32 if small else np.float64


class Numbering:
    """Codes of one column: first by the ids of each batch, then by those of all batches.

    Batches wait until they have as many ids as are known, so each id is hashed about twice, and the memory is
    that of the distinct ids.
    """

    def __init__(self, codes: Column) -> None:
        self._codes = codes
        self._ids: pa.Array | None = None
        self._waiting: list[tuple[int, int, pa.Array]] = []

    def add(self, column: pa.DictionaryArray, first: int) -> None:
        """Add a batch from row ``first`` on; a null has code −1."""
        if len(column.dictionary) > 2 * len(column):
            # A slice of a big row group carries the whole group's dictionary: keep only the entries it uses.
            used = column.indices.dictionary_encode()
            column = pa.DictionaryArray.from_arrays(used.indices, column.dictionary.take(used.dictionary))
        codes = column.indices.cast(pa.int32())
        if codes.null_count:  # fill_null would import pandas
            codes = pc.coalesce(codes, as_arrow(np.full(len(codes), -1, np.int32)))
        self._codes.write(first, as_numpy(codes))
        self._waiting.append((first, first + len(column), column.dictionary))
        known = 0 if self._ids is None else len(self._ids)
        if sum(len(ids) for _, _, ids in self._waiting) > max(known, MOST_WAITING):
            self._settle()

    def finish(self) -> pa.Array:
        """Return all ids; code ``k`` means ``ids[k]``."""
        self._settle()
        return self._ids

    def _settle(self) -> None:
        known = [] if self._ids is None else [self._ids]
        self._ids, codes = numbered([*known, *(ids for _, _, ids in self._waiting)])
        for (first, last, _), mapping in zip(self._waiting, codes[len(known) :], strict=True):
            own = self._codes.read(first, last)
            # The last entry is at index −1: a row without a value keeps −1.
            self._codes.write(first, np.append(mapping, np.int32(-1)).take(own))
        self._waiting = []


def check_columns(source: Source, rename: Mapping[str, str]) -> None:
    """Raise for a source without rows or without the columns that every fit needs."""
    unknown = sorted(set(rename) - set(contract.CONTRACT_COLUMNS))
    if unknown:
        raise InputError(
            f"cannot rename to {', '.join(unknown)}: the columns of the log are "
            f"{', '.join(contract.CONTRACT_COLUMNS)}"
        )
    absent = sorted(set(rename.values()) - set(source.types))
    if absent:
        raise InputError(
            f"{source.describe()} has no column {', '.join(absent)} to rename; it has "
            f"{', '.join(source.types)}"
        )
    missing = [name for name in ("item_id", "label") if rename.get(name, name) not in source.types]
    if not {rename.get("logit", "logit"), rename.get("probability", "probability")} & set(source.types):
        missing.append("logit (or probability)")
    if missing:
        raise InputError(
            f"{source.describe()} has no column {' and no column '.join(missing)}; it has "
            f"{', '.join(source.types)} (rename with --map item_id=your_name)"
        )
    if source.n_rows == 0:
        raise InputError(f"{source.describe()} has no rows; expected at least one")
