"""Limit a user's weight on an item to a multiple of the usual weight.

A user who sends the same answer fifteen hundred times, or a row of weight 1,000, moves an item's offset
alone. A (user, item) pair is heavy above ``user_item_limit`` times the median weight of a pair of the window,
or of the item's own pairs if that is more. Its rows remain, with weights scaled down to the limit, and to at
most the sum of all other users of the item. In a log whose users are tenants or carriers all pairs are large,
and none is heavy.

Pairs are summed while a window is extracted; rows are read again only if one is heavy.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slc_ops.base.files import replacing
from slc_ops.base.hashing import column_hashes, combined_hashes, distinct
from slc_ops.base.parquet import read_parquet, stored_batches, write_parquet
from slc_ops.base.text import count
from slc_ops.intake.manifest import WindowManifest
from slc_ops.quality.result import Finding
from slc_ops.quality.rows import WEIGHT_LIMIT
from slc_ops.rows.reading import with_offsets

_log = logging.getLogger(__name__)
CODE = "user_item_limited"
FILE = "pairs.parquet"
PAIR = ("user_id", "item_id")
LEAST = 5.0
"""Pairs below this multiple are not stored, so no limit can be lower."""
SHOWN = 10
TIMES = "times the usual weight"
SENTENCE = "one user counts for one item as others do there: the weights of rows beyond that are scaled down"

Hashes = NDArray[np.uint64]


class Pairs:
    """Sums the weight of every (user, item) pair of a window."""

    def __init__(self) -> None:
        self._pairs: list[Hashes] = []
        self._items: list[Hashes] = []
        self._weights: list[NDArray[np.float64]] = []
        self._weighted = False

    def add(self, batch: pa.RecordBatch, hashes: Mapping[str, np.ndarray]) -> None:
        """Add rows; ``hashes`` are those of their columns."""
        if set(PAIR) <= set(batch.schema.names):
            self._pairs.append(pair_hashes(hashes))
            self._items.append(hashes["item_id"])
            self._weights.append(weights(batch))
            self._weighted |= "weight" in batch.schema.names

    def finish(self, directory: Path) -> None:
        """Store the heavy pairs, with their multiple of the usual weight."""
        pair, times, others = self._multiples()
        with replacing(directory / FILE) as temporary:
            write_parquet(pa.table({"pair": pair, "times": times, "others": others}), temporary)

    def _multiples(self) -> tuple[Hashes, NDArray[np.float64], NDArray[np.float64]]:
        nothing = np.empty(0, np.uint64), np.empty(0), np.empty(0)
        if not any(map(len, self._pairs)):
            return nothing
        pair, item = np.concatenate(self._pairs), np.concatenate(self._items)
        weight, usual_of_all = np.concatenate(self._weights), None
        if not self._weighted:
            usual_of_all, rows = _rows_of_interest(pair, item)
            if not rows.any():
                return nothing
            pair, item, weight = pair[rows], item[rows], weight[rows]
        order = np.argsort(pair, kind="stable")
        begins = _begins(pair[order])
        total = np.add.reduceat(weight[order], begins)
        if not (total > 0).any():
            return nothing
        if usual_of_all is None:
            usual_of_all = np.median(total[total > 0])
        items = item[order[begins]]
        by_item = np.lexsort((total, items))
        first = _begins(items[by_item])
        count_of = np.diff(np.append(first, len(items)))
        own = total[by_item][first + (count_of - 1) // 2]  # the lower median of each item's pairs
        usual, whole = np.empty(len(total)), np.empty(len(total))
        usual[by_item] = np.repeat(np.maximum(own, usual_of_all), count_of)
        whole[by_item] = np.repeat(np.add.reduceat(total[by_item], first), count_of)
        out = np.flatnonzero(total > LEAST * usual)
        found, usual = total[out], usual[out]
        return pair[order[begins[out]]], found / usual, (whole[out] - found) / usual


def _begins(values: Hashes) -> NDArray[np.intp]:
    """Return the first row of each run of equal values."""
    return np.flatnonzero(np.append(True, values[1:] != values[:-1]))


def _rows_of_interest(pair: Hashes, item: Hashes) -> tuple[np.floating[Any], NDArray[np.bool_]]:
    """Return the usual rows of a pair, and the rows of items with a pair far above; without weights.

    No pair of another item can be heavy. Sorting numbers takes a tenth of the time of sorting rows by them.
    """
    ordered = np.sort(pair)
    begins = _begins(ordered)
    rows = np.diff(np.append(begins, len(pair)))
    usual = np.median(rows)
    candidates = ordered[begins[rows > LEAST * usual]]
    return usual, _among(item, distinct(item[_among(pair, candidates)]))


def _among(values: Hashes, known: Hashes) -> NDArray[np.bool_]:
    """Return a mask of the values that are among some sorted ones."""
    if not len(known):
        return np.zeros(len(values), np.bool_)
    place = np.minimum(np.searchsorted(known, values), len(known) - 1)
    return np.asarray(known[place] == values)


def pair_hashes(hashes: Mapping[str, np.ndarray]) -> Hashes:
    """Return a hash of each row's user and item."""
    return combined_hashes(hashes["item_id"], hashes["user_id"])


def weights(batch: pa.RecordBatch) -> NDArray[np.float64]:
    """Return the rows' weights; 0 for invalid weights, whose rows are quarantined elsewhere."""
    place = batch.schema.get_field_index("weight")
    if place < 0 or not pa.types.is_floating(batch.column(place).type):
        return np.ones(batch.num_rows)
    found = batch.column(place).fill_null(0.0).to_numpy(zero_copy_only=False)
    return np.where((found > 0) & (found <= WEIGHT_LIMIT), found, 0.0)


@dataclass(frozen=True)
class Scaled:
    """Positions of rows with scaled weights, in order, and their factors."""

    rows: NDArray[np.int64]
    factors: NDArray[np.float64]
    pairs: list[dict[str, Any]]
    """The heaviest (user, item) pairs: first row (instead of the user's id), item, and multiple."""

    def applied(self, table: pa.Table, first: int) -> pa.Table:
        """Return a part of the log, from row ``first`` on, with scaled weights; missing weights are 1."""
        place = table.schema.get_field_index("weight")
        weight = np.ones(len(table)) if place < 0 else table.column(place).to_numpy().copy()
        low, high = np.searchsorted(self.rows, [first, first + len(table)])
        weight[self.rows[low:high] - first] *= self.factors[low:high]
        if place < 0:
            return table.append_column("weight", pa.array(weight))
        return table.set_column(place, "weight", pa.array(weight))

    def finding(self, rows: int, limit: float) -> Finding:
        """Return the finding with items and row numbers; it has no user ids, because users may be erased."""
        return Finding(
            code=CODE,
            severity="warning",
            sentence=SENTENCE,
            expectation="user_item_limit",
            observed=f"{count(len(self.rows))} rows",
            expected=f"at most {limit:g} times the usual weight of a user on an item, or as all others there",
            count=len(self.rows),
            rows=rows,
            examples=self.pairs,
        )


def scaled(manifest: WindowManifest, limit: float) -> Scaled | None:
    """Return the rows of heavy pairs; None without any, and in logs stored in parts."""
    if not set(PAIR) <= set(manifest.schema):
        return None
    if manifest.path.is_dir():
        _log.warning(
            "window %s: user_item_limit is not applied, Spark keeps the log in parts", manifest.window
        )
        return None
    if not (manifest.directory / FILE).exists():
        pairs = Pairs()
        for batch in stored_batches(manifest.path):
            pairs.add(batch, column_hashes(batch))
        pairs.finish(manifest.directory)
    kept = read_parquet(manifest.directory / FILE)
    pair, times, others = (kept.column(name).to_numpy() for name in ("pair", "times", "others"))
    heavy = times > limit
    most = np.minimum(limit, np.maximum(others, LEAST))
    return _rows_of(manifest, pair[heavy], times[heavy], most[heavy]) if heavy.any() else None


def _rows_of(
    manifest: WindowManifest, pair: Hashes, times: NDArray[np.float64], most: NDArray[np.float64]
) -> Scaled:
    """Return the rows of heavy pairs, scaled to ``most`` times the usual weight."""
    order = np.argsort(pair)
    pair, times, most = pair[order], times[order], most[order]
    rows, factors = [], []
    shown: dict[int, dict[str, Any]] = {}
    for first, batch in with_offsets(stored_batches(manifest.path, PAIR)):
        found = pair_hashes(column_hashes(batch))
        place = np.minimum(np.searchsorted(pair, found), len(pair) - 1)
        here = np.flatnonzero(pair[place] == found)
        rows.append(here + first)
        factors.append(most[place[here]] / times[place[here]])
        for row, k in zip(here.tolist(), place[here].tolist(), strict=True):
            if k not in shown:
                item = batch.column("item_id")[row].as_py()
                shown[k] = {"row": first + row, "item_id": item, "rows": 0, TIMES: round(float(times[k]), 1)}
            shown[k]["rows"] += 1
    heaviest = sorted(shown.values(), key=lambda each: -float(each[TIMES]))[:SHOWN]
    return Scaled(np.concatenate(rows), np.concatenate(factors), heaviest)
