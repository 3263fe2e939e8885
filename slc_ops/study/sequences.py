"""A log as sequences: rows ordered by user and time, cut 60/20/20 per user, and windows over them.

A window is a run of rows of one user, at most ``length`` long; a network sees nothing outside of it. Rows are
trained on in windows that follow each other. They are predicted in windows that overlap by half, so that each
predicted row sees at least half a window of its user's past (or all of it).
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from slc_ops.base.errors import InputError, OneClassError
from slc_ops.paper.datasets.split import PARTS, part_of, starts
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.reading import TableSource, open_source

Ints = NDArray[np.int64]
KEPT = ("event_id", "event_time", "user_id", "item_id", "label", "group_id")
MIN_ROWS = 5
CHOICE_SHARE = 0.1
"""The last share of each user's train rows, on which the epoch is chosen."""
TRAIN, CHOICE, CALIBRATION, TEST = range(4)
MINUTE = 60.0


@dataclass(frozen=True)
class Sequences:
    """Rows by user and time. Code 0 of skill and item stands for those that train does not have."""

    rows: pa.Table
    first: Ints  # first row of each user, and the number of rows at the end
    part: NDArray[np.int8]
    skill: Ints
    item: Ints
    label: Ints
    gap: Ints
    left_out: int = 0

    @property
    def skills(self) -> int:
        """Codes of skills."""
        return int(self.skill.max()) + 1

    @property
    def items(self) -> int:
        """Codes of items."""
        return int(self.item.max()) + 1

    def spans(self, first_part: int, last_part: int) -> Ints:
        """First and last row (exclusive) of each user's rows in these parts, where there are some."""
        ends = np.cumsum(np.bincount(self._user(), minlength=len(self.first) - 1))
        before, until = (
            np.bincount(self._user()[self.part < limit], minlength=len(ends))
            for limit in (first_part, last_part + 1)
        )
        begin = ends - np.diff(self.first)
        found = np.stack([begin + before, begin + until], axis=1)
        return found[found[:, 1] > found[:, 0]]

    def _user(self) -> Ints:
        return np.repeat(np.arange(len(self.first) - 1), np.diff(self.first))

    def digest(self) -> str:
        """SHA-256 of everything that a network sees."""
        found = hashlib.sha256()
        for each in (self.first, self.part, self.skill, self.item, self.label, self.gap):
            found.update(np.ascontiguousarray(each).data)
        return found.hexdigest()


def read_sequences(
    source: Path, rename: Mapping[str, str] | None = None, min_rows: int = MIN_ROWS
) -> Sequences:
    """The sequences of a log (Parquet, CSV, Feather), or of a directory that ``slc-ops ingest`` wrote.

    The files of ``ingest`` keep the parts they have; any other log is cut here, by the same rule.
    """
    files = [source / f"{name}.parquet" for name in PARTS]
    if source.is_dir() and all(path.exists() for path in files):
        tables = [_read(path, rename or {}) for path in files]
        part = np.repeat(np.arange(3, dtype=np.int8), [table.num_rows for table in tables])
        return sequences_of(pa.concat_tables(tables, promote_options="permissive"), str(source), 1, part)
    return sequences_of(_read(source, rename or {}), str(source), min_rows)


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


def sequences_of(
    table: pa.Table, name: str = "the table", min_rows: int = MIN_ROWS, part: NDArray[np.int8] | None = None
) -> Sequences:
    """Order, cut and encode a table of the log's contract without logits."""
    log = InteractionLog(TableSource(table.append_column("logit", pa.array(np.zeros(table.num_rows))), name))
    user, time = log.user_codes, log.time
    assert user is not None and time is not None  # noqa: S101, PT018 - the columns are there
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
    """Train, choice of the epoch (the last tenth of train), calibration, test.

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
    """Codes from 0 on; rows without a group share the last one."""
    return np.where(group < 0, group.max() + 1, group).astype(np.int64)


def _seen(code: Ints, train: NDArray[np.bool_]) -> Ints:
    """Codes from 1 on for what train has, in the order of appearance there; 0 for everything else."""
    known, where = np.unique(code[train], return_index=True)
    table = np.zeros(int(code.max()) + 1, np.int64)
    table[known[np.argsort(where)]] = np.arange(1, len(known) + 1)
    return table[code]


def _gaps(kind: pa.DataType, user: Any, time: NDArray[np.float64]) -> Ints:
    """Classes of the time since the user's row before, by doubling minutes; 0 for none and for counts."""
    found = np.zeros(len(user), np.int64)
    if len(user) and not pa.types.is_integer(kind) and not pa.types.is_floating(kind):
        same = user[1:] == user[:-1]
        minutes = np.maximum(np.diff(time)[same], 0) / MINUTE
        found[1:][same] = 1 + np.minimum(np.log2(1 + minutes).astype(np.int64), 22)
    return found


# --- windows -------------------------------------------------------------------------------------------


def training_windows(spans: Ints, length: int) -> Ints:
    """Windows (first row, end, first row that counts) that follow each other; all of their rows count."""
    found = [(at, min(at + length, end), at) for begin, end in spans for at in range(begin, end, length)]
    return np.array(found, np.int64).reshape(-1, 3)


def prediction_windows(sequences: Sequences, spans: Ints, length: int) -> Ints:
    """Windows in which the rows of ``spans`` count once each, after at least half a window of their past.

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
    """Windows of like length together; with ``rng`` in a random order, else the longest first.

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
