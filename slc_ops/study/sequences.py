"""A log as sequences: rows ordered by user and time, split 60/20/20 per user, and windows over them.

A window holds consecutive rows of one user, at most ``length``; a network uses no rows outside it. Training
windows are adjacent. Prediction windows overlap by half, so that each predicted row has at least half a
window of its user's past (or all of it).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slc_ops.base.digests import digest_bytes
from slc_ops.base.errors import InputError, OneClassError
from slc_ops.paper.datasets.split import PARTS, part_of, starts
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.reading import TableSource, open_source

Ints = NDArray[np.int64]
KEPT = ("event_id", "event_time", "user_id", "item_id", "label", "group_id")
MIN_ROWS = 5
CHOICE_SHARE = 0.1
"""The last share of each user's train rows, which selects the epoch."""
TRAIN, CHOICE, CALIBRATION, TEST = range(4)
MINUTE = 60.0


@dataclass(frozen=True)
class Sequences:
    """Rows by user and time. Code 0 of skill and item marks values that are absent from train."""

    rows: pa.Table
    first: Ints  # first row of each user, then the total number of rows
    part: NDArray[np.int8]
    skill: Ints
    item: Ints
    label: Ints
    gap: Ints
    left_out: int = 0

    @property
    def skills(self) -> int:
        """The number of skill codes."""
        return int(self.skill.max()) + 1

    @property
    def items(self) -> int:
        """The number of item codes."""
        return int(self.item.max()) + 1

    def spans(self, first_part: int, last_part: int) -> Ints:
        """Return first and end row of each user's rows in these parts, if the user has any."""
        begin, end = self.first[:-1], self.first[1:]
        edges = []
        for limit in (first_part, last_part + 1):
            earlier = np.r_[0, np.cumsum(self.part < limit)]
            edges.append(begin + earlier[end] - earlier[begin])
        found = np.stack(edges, axis=1)
        return found[found[:, 1] > found[:, 0]]

    def digest(self) -> str:
        """Return the SHA-256 digest of all inputs of a network."""
        inputs = (self.first, self.part, self.skill, self.item, self.label, self.gap)
        return digest_bytes(np.ascontiguousarray(each).data for each in inputs)


def read_sequences(source: Path, rename: Mapping[str, str] | None = None) -> Sequences:
    """Read the sequences of a log (Parquet, CSV, Feather), or of a directory of ``slc-ops ingest``.

    The files of ``ingest`` keep their parts; any other log is split here by the same rule.
    """
    files = [source / f"{name}.parquet" for name in PARTS]
    if source.is_dir() and all(path.exists() for path in files):
        tables = [_read(path, rename or {}) for path in files]
        part = np.repeat(np.arange(3, dtype=np.int8), [table.num_rows for table in tables])
        return sequences_of(pa.concat_tables(tables, promote_options="permissive"), str(source), part)
    return sequences_of(_read(source, rename or {}), str(source))


def _read(path: Path, rename: Mapping[str, str]) -> pa.Table:
    opened = open_source(path, rename)
    columns = {name: rename.get(name, name) for name in KEPT}
    missing = [columns[name] for name in KEPT[1:5] if columns[name] not in opened.types]
    if missing:
        raise InputError(
            f"{path} has no column {missing[0]}, which a study needs; it has {', '.join(opened.types)} "
            "(rename with --map NAME=COLUMN)"
        )
    there = {name: column for name, column in columns.items() if column in opened.types}
    pieces = list(opened.batches(list(there.values())))
    if not pieces:
        raise InputError(f"{path} has no rows; a study needs some of several users")
    return pa.Table.from_batches(pieces).rename_columns(list(there))


def sequences_of(table: pa.Table, name: str = "the table", part: NDArray[np.int8] | None = None) -> Sequences:
    """Sort, split and encode a table in the log's contract, without logits.

    A given split keeps all users; otherwise users with too few rows are left out.
    """
    min_rows = MIN_ROWS if part is None else 1
    log = InteractionLog(TableSource(table.append_column("logit", pa.array(np.zeros(table.num_rows))), name))
    user, time = log.user_codes, log.time
    assert user is not None and time is not None  # noqa: S101, PT018 - the columns exist
    often = np.bincount(user)[user] >= min_rows if len(user) else np.zeros(0, bool)
    order = np.lexsort((time, user))
    order = order[often[order]]
    user, time, label = user[order], time[order], log.label[order].astype(np.int64)
    if len(np.unique(user)) < 2:
        raise InputError(
            f"{name} has {len(np.unique(user))} user(s) with at least {min_rows} rows; "
            "a study needs two or more"
        )
    if part is None:
        part = part_of(pa.table({"user_id": user, "clock": time}))
    else:
        part = part[order]
        if (np.diff(part)[user[1:] == user[:-1]] < 0).any():
            raise InputError(f"{name}: the times of history, calibration and test overlap for some user")
    for number, what in enumerate(("train", "calibration", "test")):
        classes = np.unique(label[part == number])
        if len(classes) < 2:
            found = f"only the label {classes[0]}" if len(classes) else "no row"
            raise OneClassError(f"{name}: {what} has {found}; a study needs both labels in each part")
    first = np.r_[starts(user)[0], len(user)]
    four = four_parts(first, part)
    group = log.rows(0, log.n_rows, {"group"}).group
    skill = np.zeros(len(order), np.int64) if group is None else _codes(group)[order]
    train = part == 0
    return Sequences(
        table.take(pa.array(order)), first, four, _seen(skill, train),
        _seen(log.item_codes[order].astype(np.int64), train), label,
        _gaps(table.schema.field("event_time").type, user, time), int((~often).sum()),
    )  # fmt: skip


def four_parts(first: Ints, part: NDArray[np.int8]) -> NDArray[np.int8]:
    """Split into train, choice of the epoch (the last tenth of train), calibration and test.

    >>> four_parts(np.array([0, 5]), np.array([0, 0, 0, 1, 2], np.int8)).tolist()
    [0, 0, 1, 2, 3]
    """
    found = (part + (part > 0)).astype(np.int8)
    for begin, end in pairwise(first):
        n = int(np.searchsorted(part[begin:end], 1))
        kept = min(n - 1, int(np.floor((1 - CHOICE_SHARE) * n + 1e-9)))
        if n > 1:
            found[begin + kept : begin + n] = CHOICE
    return found


def _codes(group: NDArray[np.integer]) -> Ints:
    """Return codes from 0 on; rows without a group share the last code."""
    return np.where(group < 0, group.max() + 1, group).astype(np.int64)


def _seen(code: Ints, train: NDArray[np.bool_]) -> Ints:
    """Return codes from 1 on for values in train, in order of appearance; 0 for others."""
    known, where = np.unique(code[train], return_index=True)
    table = np.zeros(int(code.max()) + 1, np.int64)
    table[known[np.argsort(where)]] = np.arange(1, len(known) + 1)
    return table[code]


def _gaps(kind: pa.DataType, user: Any, time: NDArray[np.float64]) -> Ints:
    """Return classes of the time since the user's previous row, in doubling minutes; 0 if unknown."""
    found = np.zeros(len(user), np.int64)
    if len(user) and not pa.types.is_integer(kind) and not pa.types.is_floating(kind):
        same = user[1:] == user[:-1]
        minutes = np.maximum(np.diff(time)[same], 0) / MINUTE
        found[1:][same] = 1 + np.minimum(np.log2(1 + minutes).astype(np.int64), 22)
    return found


# --- windows -------------------------------------------------------------------------------------------


def training_windows(spans: Ints, length: int) -> Ints:
    """Return adjacent windows (first row, end, first scored row); all of their rows are scored."""
    found = [(at, min(at + length, end), at) for begin, end in spans for at in range(begin, end, length)]
    return np.array(found, np.int64).reshape(-1, 3)


def prediction_windows(sequences: Sequences, spans: Ints, length: int) -> Ints:
    """Return windows that score each row of ``spans`` once, after at least half a window of its past.

    >>> one = Sequences(None, np.array([0, 9]), *[None] * 5)
    >>> prediction_windows(one, np.array([[3, 9]]), 4).tolist()
    [[1, 5, 3], [3, 7, 5], [5, 9, 7]]
    """
    step = max(length // 2, 1)
    begin = sequences.first[np.searchsorted(sequences.first, spans[:, 0], side="right") - 1]
    found = [
        (max(int(user), min(at + step, end) - length), min(at + step, end), at)
        for user, (first, end) in zip(begin, spans, strict=True)
        for at in range(first, end, step)
    ]
    return np.array(found, np.int64).reshape(-1, 3)


def batches(windows: Ints, size: int, rng: np.random.Generator | None = None) -> Iterator[Ints]:
    """Yield batches of windows of similar length; in random order with ``rng``, else longest first.

    >>> [batch[:, 1].tolist() for batch in batches(np.array([[0, 3, 0], [0, 9, 0], [0, 4, 0]]), 2)]
    [[9, 4], [3]]
    """
    length = windows[:, 1] - windows[:, 0]
    mixed = np.arange(len(windows)) if rng is None else rng.permutation(len(windows))
    rough = length[mixed] if rng is None else -(-length[mixed] // 10)
    ordered = mixed[np.argsort(-rough, kind="stable")]
    cut: Sequence[Ints] = [windows[ordered[at : at + size]] for at in range(0, len(ordered), size)]
    for number in range(len(cut)) if rng is None else rng.permutation(len(cut)):
        yield cut[number]
