"""Checks of single rows. Each check returns the rows of a batch that fail it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

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

    def check(column: str, fault: str, rule: str, failing: Failing) -> RowCheck:
        return RowCheck(f"{column}_{fault}", column, f"{column} {rule}", failing)

    def number(column: str, fault: str, rule: str, wrong: Callable[[np.ndarray], np.ndarray]) -> RowCheck:
        return check(column, fault, rule, lambda values: wrong(numbers(values)))

    def outside(values: pa.Array) -> np.ndarray:
        before = pc.less(values, pa.scalar(start, TIME))
        return numbers(pc.or_(before, pc.greater_equal(values, pa.scalar(end, TIME))))

    never_null = ("event_id", "event_time", "user_id", "item_id", "label", "logit", "probability", "weight")
    again = partial(np.isin, test_elements=np.empty(0) if seen is None else seen)
    repeats = RowCheck(SEEN_BEFORE, "event_id", SEEN_BEFORE_SENTENCE, lambda ids: again(value_hashes(ids)))
    return (
        *(check(column, "null", "must not be null", nulls) for column in never_null),
        *(check(column, "not_utf8", "must be UTF-8, without U+FFFF", not_utf8) for column in TEXTS),
        *((repeats,) if seen is not None and len(seen) else ()),
        check("event_time", "outside", "must lie inside the window", outside),
        number("label", "not_binary", "must be 0 or 1", lambda y: (y != 0) & (y != 1)),
        number("logit", "not_finite", "must be finite", lambda x: ~np.isfinite(x)),
        number(
            "logit", "implausible", f"must lie within ±{logit_limit:g}", lambda x: np.abs(x) > logit_limit
        ),
        number("probability", "not_finite", "must be finite", lambda x: ~np.isfinite(x)),
        number("probability", "outside", "must lie in [0, 1]", lambda p: (p < 0) | (p > 1)),
        number("weight", "not_finite", "must be finite", lambda x: ~np.isfinite(x)),
        number("weight", "negative", "must not be negative", lambda w: w < 0),
        number(
            "weight",
            "implausible",
            f"must be 0 or lie between {1 / WEIGHT_LIMIT:g} and {WEIGHT_LIMIT:g}",
            lambda w: (w > WEIGHT_LIMIT) | ((w > 0) & (w < 1 / WEIGHT_LIMIT)),
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
        before = failed_before.get(check.column, np.zeros(batch.num_rows, bool))
        found[check.code] = check.failing(values) & ~before
        failed_before[check.column] = before | found[check.code]
    return found


def nulls(values: pa.Array) -> np.ndarray:
    """Mask rows without a value."""
    return np.zeros(len(values), bool) if values.null_count == 0 else numbers(values.is_null())


def not_utf8(values: pa.Array) -> np.ndarray:
    """Mask rows whose text has U+FFFF: in the source, or in place of bytes that are not UTF-8."""
    if not pa.types.is_string(values.type) or largest_byte(values) < NO_CHARACTER.encode()[0]:
        return np.zeros(len(values), bool)
    return numbers(pc.match_substring(values, NO_CHARACTER))


def largest_byte(texts: pa.Array) -> int:
    """Return the largest byte of all texts: most logs have ids without any special character."""
    _, offsets, data = texts.buffers()
    first, last = np.frombuffer(offsets, np.int32)[[texts.offset, texts.offset + len(texts)]]
    return int(np.frombuffer(data, np.uint8)[first:last].max(initial=0)) if last > first else 0


def numbers(values: pa.Array) -> np.ndarray:
    """Return a column of numbers or booleans as NumPy; null is 0 or False."""
    nothing = pa.scalar(0).cast(values.type)
    plain: np.ndarray = values.fill_null(nothing).to_numpy(zero_copy_only=False)
    return plain
