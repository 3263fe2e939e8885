"""Event ids of earlier windows: an export that was sent again must not count as new evidence.

Each window stores the 64-bit hashes of its event ids beside its rows: all of them up to :data:`EXACT` rows,
above that one in 2, 4, … of them, chosen by the hash itself, so that two windows keep the same ids. If a
sample contains few repeated ids, the columns themselves are read to find every such row.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slc_ops.base.digests import digest_bytes
from slc_ops.base.files import replacing
from slc_ops.base.hashing import distinct, value_hashes
from slc_ops.base.parquet import stored_batches
from slc_ops.intake.manifest import WindowManifest
from slc_ops.rows.reading import with_offsets

FILE = "event_ids.npy"
EXACT = 1 << 20
"""Rows of a window up to which all ids are stored: 8 MB."""


def keep_ids(directory: Path, rows: int, hashes: np.ndarray) -> np.ndarray:
    """Store the hashes of a window's ids, or a sample, beside its rows; sorted and unique."""
    kept = distinct(sampled(hashes, level(rows)))
    with replacing(directory / FILE) as temporary, temporary.open("wb") as file:
        np.save(file, kept)
    return kept


def level(rows: int) -> int:
    """Return the number of times that the sample is halved.

    >>> level(0), level(EXACT), level(EXACT + 1), level(5_000_000)
    (0, 0, 1, 3)
    """
    return max(0, (max(rows, 1) - 1).bit_length() - EXACT.bit_length() + 1)


def sampled(hashes: np.ndarray, halved: int) -> np.ndarray:
    """Return one in 2^halved of the hashes."""
    kept: np.ndarray = hashes[hashes & np.uint64((1 << halved) - 1) == 0] if halved else hashes
    return kept


@dataclass(frozen=True)
class Seen:
    """Hashes of ids that earlier windows had, and the number of rows with one.

    If more rows than the budget have one, the window stops anyway, so the hashes may be a sample.
    """

    hashes: np.ndarray
    rows: int = 0

    @property
    def digest(self) -> str:
        """A digest of these ids; empty without any."""
        return digest_bytes([np.ascontiguousarray(self.hashes).data]) if self.rows else ""


NOTHING = Seen(np.empty(0, np.uint64))


def seen_before(manifest: WindowManifest, earlier: Sequence[WindowManifest], budget: float) -> Seen:
    """Return the ids of a window that earlier windows had."""
    known = [each for each in earlier if "event_id" in each.schema and each.rows]
    if "event_id" not in manifest.schema or not manifest.rows or not known:
        return NOTHING
    halved = max(level(each.rows) for each in (manifest, *known))
    mine = sampled(_kept(manifest), halved)
    found = _shared(mine, (sampled(_kept(each), halved) for each in known))
    rows = min(len(found) << halved, manifest.rows)
    if halved and 0 < rows <= budget * manifest.rows:  # within the budget: find every row
        mine = distinct(np.concatenate(list(_hashes(manifest.path))))
        found = _shared(mine, (part for each in known for part in _hashes(each.path)))
        rows = len(found)
    return Seen(found, rows) if rows else NOTHING


def _shared(mine: np.ndarray, others: Iterable[np.ndarray]) -> np.ndarray:
    """Return those of ``mine``, sorted and unique, that occur in ``others``."""
    again = np.zeros(len(mine), bool)
    for each in others:
        at = np.searchsorted(mine, each)
        inside = at < len(mine)
        at = at[inside]
        again[at[mine[at] == each[inside]]] = True
    return mine[again]


def rows_with(path: Path, hashes: np.ndarray, most: int) -> list[int]:
    """Return the positions of the first ``most`` rows whose id has one of the hashes."""
    rows: list[int] = []
    for first, batch in with_offsets(stored_batches(path, ["event_id"])):
        ids = batch.column(0)
        again = np.isin(value_hashes(ids), hashes) & np.asarray(ids.is_valid())
        rows += (np.flatnonzero(again) + first).tolist()
        if len(rows) >= most:
            break
    return rows[:most]


def _kept(manifest: WindowManifest) -> np.ndarray:
    path = manifest.directory / FILE
    if path.exists():
        kept: np.ndarray = np.load(path, allow_pickle=False)
        return kept
    halved = level(manifest.rows)
    parts = [sampled(part, halved) for part in _hashes(manifest.path)]
    return keep_ids(manifest.directory, manifest.rows, np.concatenate([NOTHING.hashes, *parts]))


def _hashes(path: Path) -> Iterator[np.ndarray]:
    for batch in stored_batches(path, ["event_id"]):
        yield value_hashes(batch.column(0).drop_null())
