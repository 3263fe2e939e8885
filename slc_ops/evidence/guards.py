"""Check that a pair of logs allows a fair comparison: time order, shared rows, labels and scores.

Every finding has the user's name of the column and a figure. If the test log starts after the calibration log
ends, only the time ranges are compared; otherwise rows are compared, on a sample for long logs.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from slc_ops.base.errors import InputError
from slc_ops.base.hashing import hashes_of, stir
from slc_ops.base.json_form import JsonForm
from slc_ops.base.text import count, number, share
from slc_ops.rows.interactions import InteractionLog
from slc_ops.rows.rows import NO_COLUMNS, Columns, Rows

SPAN = 1 << 20
TELLING = 0.9  # minimum share of distinct calibration rows for equal rows to indicate a leak
COMPARED_ROWS = 1 << 21  # approximate sample size for longer logs
SAME_ROWS = 0.01  # share of test rows that are calibration rows, from which it is reported


@dataclass(frozen=True)
class Finding(JsonForm):
    """One reason to distrust a comparison."""

    code: str
    column: str
    message: str


def findings(
    calibration: InteractionLog, test: InteractionLog, cold_start_share: float
) -> tuple[Finding, ...]:
    """Return the problems of a pair of logs; empty for a fair pair."""
    pairs = (("calibration", calibration), ("test", test))
    apart = _times(calibration, test)
    found = [each for name, log in pairs for each in _scores_and_labels(name, log)]
    found += [] if apart is None else [apart]
    if apart is not None or not (calibration.has("event_time") and test.has("event_time")):
        found += _same_rows(calibration, test)
    if cold_start_share == 1.0:
        column = test.called("item_id")
        found.append(
            Finding(
                "no-common-item", column,
                f"column {column!r}: the two logs have no item in common ({count(len(calibration.items))} "
                f"and {count(len(test.items))} items), so every test row is a cold start",
            )
        )  # fmt: skip
    return tuple(found)


def refuse(found: tuple[Finding, ...]) -> None:
    """Raise :class:`InputError` with all findings, if there are any."""
    if found:
        raise InputError("; ".join(each.message for each in found))


def _times(calibration: InteractionLog, test: InteractionLog) -> Finding | None:
    """Return a finding unless the test log is strictly later; None without timestamps."""
    if calibration.time is None or test.time is None:
        return None
    column = test.called("event_time")
    if test.time.min() > calibration.time.max():
        return None
    if test.time.max() < calibration.time.min():
        return Finding(
            "reversed-time", column,
            f"column {column!r}: all {count(test.n_rows)} test rows are earlier than the first calibration "
            "row; are the two files swapped?",
        )  # fmt: skip
    early = float(np.mean(test.time <= calibration.time.max()))
    return Finding(
        "overlapping-time", column,
        f"column {column!r}: {share(early, 1)} of the test rows are not later than the last calibration row, "
        "so a fit may use rows that lie next to test rows",
    )  # fmt: skip


def _scores_and_labels(name: str, log: InteractionLog) -> Iterator[Finding]:
    low, high, first, constant = np.inf, -np.inf, None, True
    by_probability = not log.has("logit")
    for rows in _spans(log):
        low, high = min(low, float(rows.logit.min())), max(high, float(rows.logit.max()))
        first = rows.label[0] if first is None else first
        constant = constant and bool((rows.label == first).all())
    if not by_probability and low >= 0 and high <= 1 and low < high:
        column = log.called("logit")
        yield Finding(
            "probabilities-as-logits", column,
            f"column {column!r} of the {name} rows lies between {number(low)} and {number(high)}, "
            f"as probabilities do and logits rarely do: is it a probability (--map probability={column})?",
        )  # fmt: skip
    if constant and first is not None:
        column = log.called("label")
        yield Finding(
            "constant-label", column,
            f"column {column!r}: all {count(log.n_rows)} {name} rows have the label {int(first)}; an AUC "
            "needs both",
        )  # fmt: skip


def _same_rows(calibration: InteractionLog, test: InteractionLog) -> list[Finding]:
    """Find test rows that are also calibration rows: such a leak inflates the gain."""
    shared = {"time": "event_time", "user": "user_id"}
    shared = {name: column for name, column in shared.items() if calibration.has(column) and test.has(column)}
    # Equal rows have equal keys, so the rows with low keys are the same sample of both logs.
    highest = min(2**64 - 1, 2**64 * COMPARED_ROWS // max(calibration.n_rows, test.n_rows))
    (keys, mine), (others, theirs) = (
        _keys(log, frozenset(shared), highest)  # type: ignore[arg-type]  # a subset of the literals
        for log in (calibration, test)
    )
    named = ["item_id", "label", "logit" if test.has("logit") else "probability", *shared.values()]
    column, listed = test.called("item_id"), ", ".join(repr(test.called(name)) for name in named)
    known = keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys
    if len(known) < TELLING * len(keys) or not len(known):  # many duplicates: compare whole contents
        if calibration.n_rows != test.n_rows or mine != theirs:
            return []
        message = (
            f"columns {listed}: the {count(test.n_rows)} test rows are the calibration rows, each as often; "
            "is it the same file twice? Test on later rows"
        )
        return [Finding("same-rows", column, message)]
    place = np.minimum(np.searchsorted(known, others), len(known) - 1)
    again = float(np.count_nonzero(known[place] == others)) / max(1, len(others))
    if again < SAME_ROWS:
        return []
    message = (
        f"columns {listed}: {share(again, 1)} of the test rows are calibration rows too; test on later ones"
    )
    return [Finding("same-rows", column, message)]


def _keys(log: InteractionLog, columns: Columns, highest: int) -> tuple[NDArray[np.uint64], int]:
    """Return the sorted row hashes up to ``highest``, and the sum of all row hashes modulo 2⁶⁴."""
    items = hashes_of(log.items)
    users = None if log.users is None or "user" not in columns else hashes_of(log.users)
    keys, total = [], 0
    for rows in _spans(log, columns):
        key = stir(items[rows.codes] + rows.label.astype(np.uint64))
        for values in (rows.logit, rows.time):
            if values is not None:
                key = stir(key ^ (np.asarray(values, np.float64) + 0.0).view(np.uint64))
        if users is not None and rows.user is not None:
            key = stir(key ^ users[rows.user])
        keys.append(key[key <= np.uint64(highest)])
        total += int(key.sum())
    return np.sort(np.concatenate(keys)), total % 2**64


def _spans(log: InteractionLog, columns: Columns = NO_COLUMNS) -> Iterator[Rows]:
    for first in range(0, log.n_rows, SPAN):
        yield log.rows(first, min(first + SPAN, log.n_rows), columns)
