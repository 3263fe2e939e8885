"""The clusters of users that intervals resample, slice by slice: worked out once for all methods of a log."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from slc_ops.base.once import Once
from slc_ops.evidence.slices import Slicing
from slc_ops.evidence.uncertainty import MAX_CLUSTERS
from slc_ops.numerics.kernels import sigmoid
from slc_ops.numerics.ranking import ranked_rows
from slc_ops.rows.rows import NO_COLUMNS, Columns, Log, Rows

Floats = NDArray[np.float64]


def clusters_of(rows: Rows, n_users: int) -> tuple[NDArray[np.int16], int]:
    """The cluster of each row, and how many there are; without users, each row is one."""
    count = min(n_users, MAX_CLUSTERS)
    user = np.arange(len(rows), dtype=np.int32) if rows.user is None else rows.user
    return (user % np.int32(count)).astype(np.int16), count


def n_users(log: Log) -> int:
    """How many users a log has; without users, each row is one."""
    return log.n_rows if log.users is None else len(log.users)


@dataclass(frozen=True)
class UserKeys:
    """Rows by slice and cluster: what all methods have in common, and where each row belongs.

    ``rows`` and ``positive`` count by slice (all rows are one, where there are no slices) and cluster. Row r
    belongs to slice ``of_row[r] // clusters - outside``; where there are slices, ``outside`` is 1 and the
    first lot of keys is that of rows of no slice.
    """

    of_row: NDArray[Any]
    outside: int
    rows: Floats
    positive: Floats

    @classmethod
    def of(
        cls,
        label: NDArray[np.int8],
        cluster: NDArray[np.int16],
        count: int,
        number: NDArray[Any] | None = None,
        parts: int = 1,
    ) -> "UserKeys":
        """The keys of rows whose slices have the given numbers, −1 for none."""
        outside = int(number is not None)
        keys: NDArray[Any] = cluster
        if number is not None:
            keys = np.multiply(number + np.int32(1), count, dtype=np.int32)
            keys += cluster
        size = (parts + outside) * count
        counted = [np.bincount(each, minlength=size) for each in (keys, keys[label != 0])]
        rows, positive = (
            each[outside * count :].reshape(parts, count).astype(np.float64) for each in counted
        )
        return cls(keys, outside, rows, positive)

    def empty(self) -> Floats:
        """Sums by key, all 0."""
        return np.zeros(self.rows.size + self.outside * self.rows.shape[1])

    def by_slice(self, sums: Floats) -> Floats:
        """Sums by key as slices × clusters."""
        return sums[self.outside * self.rows.shape[1] :].reshape(self.rows.shape)


class UsersOf:
    """The users of a log in memory without weights; each part is worked out when it is first asked for."""

    def __init__(self, test: Log) -> None:
        self._test, self._once = test, Once()

    @property
    def _log(self) -> Log:
        return self._test.in_memory() or self._test

    @property
    def clusters(self) -> tuple[NDArray[np.int16], int]:
        """The cluster of each row, and how many there are."""
        return self._once.get("clusters", self._clusters)

    @property
    def by_logit(self) -> NDArray[np.intp]:
        """The rows in the order of their logits, in which many methods leave them."""
        return self._once.get("by logit", self._by_logit)

    def _by_logit(self) -> NDArray[np.intp]:
        rows = self._rows(NO_COLUMNS)
        return ranked_rows(rows.label, sigmoid(rows.logit))[0]

    def keys(self, slicing: Slicing | None = None) -> UserKeys:
        """The keys of all rows, or of those of a slicing that has parts."""
        return self._once.get(
            ("keys", None if slicing is None else slicing.parts), lambda: self._keys(slicing)
        )

    def sizes(self, slicing: Slicing) -> NDArray[np.intp]:
        """How many rows belong to no part of a slicing, and to each of them."""
        return self._once.get(("sizes", slicing.parts), lambda: self._sizes(slicing))

    def _sizes(self, slicing: Slicing) -> NDArray[np.intp]:
        number = slicing.number_of(self._rows(slicing.columns)).astype(np.intp)
        return np.bincount(number + 1, minlength=len(slicing.parts) + 1)

    @property
    def items(self) -> Floats:
        """By item: rows, and rows with a positive label."""
        return self._once.get("items", self._items)

    def _items(self) -> Floats:
        rows, size = self._rows(NO_COLUMNS), len(self._log.items)
        counted = [np.bincount(each, minlength=size) for each in (rows.codes, rows.codes[rows.label != 0])]
        return np.array(counted, dtype=np.float64)

    def _clusters(self) -> tuple[NDArray[np.int16], int]:
        return clusters_of(self._rows({"user"}), n_users(self._log))

    def _keys(self, slicing: Slicing | None) -> UserKeys:
        cluster, count = self.clusters
        rows = self._rows(NO_COLUMNS if slicing is None else slicing.columns)
        if slicing is None:
            return UserKeys.of(rows.label, cluster, count)
        return UserKeys.of(rows.label, cluster, count, slicing.number_of(rows), len(slicing.parts))

    def _rows(self, columns: Columns) -> Rows:
        return self._log.sample([0], self._log.n_rows, columns)[0]
