"""Checks of single rows. Each check returns the rows of a batch that fail it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slc_ops.base.hashing import value_hashes
from slc_ops.base.utf8 import NO_CHARACTER
from slc_ops.intake.contract import ALLOWED_TYPES, TEXTS, TIME

Failing = Callable[[pa.Array], np.ndarray]


@dataclass(frozen=True)
class RowCheck:
    """One rule about one column. A row fails at most one check per column: the first."""

    code: str
    column: str
    sentence: str
    failing: Failing


def row_checks(
    start: datetime, end: datetime, logit_limit: float, seen: np.ndarray | None = None
) -> tuple[RowCheck, ...]:
    """Return all row checks of the contract for the window ``[start, end)``.

    ``seen`` are the hashes of event ids of earlier windows.
    """

    def outside(values: pa.Array) -> np.ndarray:
        before = pc.less(values, pa.scalar(start, TIME))
        return flags(pc.or_(before, pc.greater_equal(values, pa.scalar(end, TIME))))

    checks = [
        RowCheck(f"{column}_null", column, f"{column} must not be null", nulls)
        for column in (
            "event_id",
            "event_time",
            "user_id",
            "item_id",
            "label",
            "logit",
            "probability",
            "weight",
        )
    ]
    checks += [
        RowCheck(f"{column}_not_utf8", column, f"{column} must be UTF-8, without U+FFFF", not_utf8)
        for column in TEXTS
    ]
    if seen is not None and len(seen):
        checks.append(RowCheck(SEEN_BEFORE, "event_id", SEEN_BEFORE_SENTENCE, having(seen)))
    return (
        *checks,
        RowCheck("event_time_outside", "event_time", "event_time must lie inside the window", outside),
        RowCheck("label_not_binary", "label", "label must be 0 or 1", not_binary),
        RowCheck("logit_not_finite", "logit", "logit must be finite", not_finite),
        RowCheck(
            "logit_implausible",
            "logit",
            f"logit must lie within ±{logit_limit:g}",
            beyond(-logit_limit, logit_limit),
        ),
        RowCheck("probability_not_finite", "probability", "probability must be finite", not_finite),
        RowCheck("probability_outside", "probability", "probability must lie in [0, 1]", beyond(0.0, 1.0)),
        RowCheck("weight_not_finite", "weight", "weight must be finite", not_finite),
        RowCheck("weight_negative", "weight", "weight must not be negative", beyond(0.0, np.inf)),
        RowCheck(
            "weight_implausible",
            "weight",
            f"weight must be 0 or lie between {1 / WEIGHT_LIMIT:g} and {WEIGHT_LIMIT:g}",
            no_weight,
        ),
    )


WEIGHT_LIMIT = 1e30
"""Sums of squares of such weights, and of their inverses, remain finite for any number of rows."""
DUPLICATE = "event_id_duplicate"
DUPLICATE_SENTENCE = "event_id must be unique; the first row with an id is kept"
SEEN_BEFORE = "event_id_seen_before"
SEEN_BEFORE_SENTENCE = (
    "event_id must not be one of an earlier window (an export sent again, or ids that restart in every "
    "file: make them unique within the deployment)"
)


def failures(batch: pa.RecordBatch, checks: tuple[RowCheck, ...]) -> dict[str, np.ndarray]:
    """Return check code → mask of failing rows. Columns of a wrong type are only checked for nulls."""
    found: dict[str, np.ndarray] = {}
    failed_before: dict[str, np.ndarray] = {}
    for check in checks:
        if check.column not in batch.schema.names:
            continue
        values = batch.column(check.column)
        if check.failing is not nulls and str(values.type) not in ALLOWED_TYPES[check.column]:
            continue
        failing = check.failing(values)
        before = failed_before.get(check.column)
        if before is not None:
            failing = failing & ~before
            failed_before[check.column] = before | failing
        else:
            failed_before[check.column] = failing
        found[check.code] = failing
    return found


def nulls(values: pa.Array) -> np.ndarray:
    """Mask rows without a value."""
    return np.zeros(len(values), bool) if values.null_count == 0 else flags(values.is_null())


def not_utf8(values: pa.Array) -> np.ndarray:
    """Mask rows whose text has U+FFFF: in the source, or in place of bytes that are not UTF-8."""
    if not pa.types.is_string(values.type) or largest_byte(values) < NO_CHARACTER.encode()[0]:
        return np.zeros(len(values), bool)
    return flags(pc.match_substring(values, NO_CHARACTER))


def largest_byte(texts: pa.Array) -> int:
    """Return the largest byte of all texts: most logs have ids without any special character."""
    _, offsets, data = texts.buffers()
    first, last = np.frombuffer(offsets, np.int32)[[texts.offset, texts.offset + len(texts)]]
    return int(np.frombuffer(data, np.uint8)[first:last].max(initial=0)) if last > first else 0


def not_binary(values: pa.Array) -> np.ndarray:
    """Mask rows whose label is neither 0 nor 1."""
    plain = values.fill_null(0).to_numpy(zero_copy_only=False)
    wrong: np.ndarray = (plain != 0) & (plain != 1)
    return wrong


def not_finite(values: pa.Array) -> np.ndarray:
    """Mask rows with NaN or an infinity."""
    wrong: np.ndarray = ~np.isfinite(values.fill_null(0.0).to_numpy(zero_copy_only=False))
    return wrong


def having(seen: np.ndarray) -> Failing:
    """Mask rows whose value has one of the hashes."""

    def failing(values: pa.Array) -> np.ndarray:
        wrong: np.ndarray = np.isin(value_hashes(values), seen)
        return wrong

    return failing


def no_weight(values: pa.Array) -> np.ndarray:
    """Mask rows whose weight is too large or too small for sums."""
    plain = values.fill_null(0.0).to_numpy(zero_copy_only=False)
    wrong: np.ndarray = (plain > WEIGHT_LIMIT) | ((plain > 0) & (plain < 1 / WEIGHT_LIMIT))
    return wrong


def beyond(low: float, high: float) -> Failing:
    """Mask rows below ``low`` or above ``high``."""

    def failing(values: pa.Array) -> np.ndarray:
        plain = values.fill_null(max(low, 0.0)).to_numpy(zero_copy_only=False)
        wrong: np.ndarray = (plain < low) | (plain > high)
        return wrong

    return failing


def flags(mask: pa.Array) -> np.ndarray:
    """Return a boolean Arrow array as NumPy; null is False."""
    plain: np.ndarray = mask.fill_null(False).to_numpy(zero_copy_only=False)
    return plain
