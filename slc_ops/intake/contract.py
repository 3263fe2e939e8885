"""The columns of the interaction log, and the conversion of source types.

Only lossless conversions happen here. A column without one keeps its type, and the validation suite reports
it; nothing is repaired.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from slc_ops.base.errors import InputError
from slc_ops.base.utf8 import decoded, require_utf8
from slc_ops.settings.sources import CONTRACT_COLUMNS, Mapped

TIME = pa.timestamp("us", "UTC")
NAIVE = pa.timestamp("us")
FLOOR = 1e-6  # clip of probabilities before the logit
REPEATED_TIMES = "times_repeated"
SKIPPED_TIMES = "times_skipped"
"""Manifest notes: rows whose local time the clock repeated, or skipped."""

# The allowed Arrow types of each column; the suite validates the log by this table.
ALLOWED_TYPES: dict[str, tuple[str, ...]] = {
    "event_id": ("string",),
    "event_time": (str(TIME),),
    "user_id": ("string", "int64"),
    "item_id": ("string", "int64"),
    "label": ("int64", "double"),  # doubles that are all 0.0 or 1.0 become integers in the clean log
    "logit": ("double",),
    "probability": ("double",),
    "weight": ("double",),
    "group_id": ("string", "int64"),
    "backbone_version": ("string",),
    "served_probability": ("double",),
    "served_version": ("int64",),
}
REQUIRED = ("event_id", "event_time", "user_id", "item_id", "label")
NUMBERS = ("label", "logit", "probability", "weight", "served_probability")
IDS = ("user_id", "item_id", "group_id")
TEXTS = ("event_id", *IDS, "backbone_version")
REPETITIVE = (*IDS, "backbone_version")
"""Text columns with many repeated values: decoding their dictionary is half the work of reading them."""


def target_type(column: str, found: pa.DataType) -> pa.DataType:
    """Return the log's type for values of type ``found``; ``found`` itself where none fits.

    >>> target_type("label", pa.bool_()), target_type("item_id", pa.int32())
    (DataType(int64), DataType(int64))
    >>> target_type("logit", pa.string()), target_type("item_id", pa.binary())
    (DataType(string), DataType(string))
    """
    if pt.is_dictionary(found) or pt.is_run_end_encoded(found):
        return target_type(column, found.value_type)
    text = pt.is_string(found) or pt.is_large_string(found) or pt.is_string_view(found)
    binary = pt.is_binary(found) or pt.is_large_binary(found) or pt.is_binary_view(found)
    text = text or (column in TEXTS and binary)
    whole = pt.is_integer(found)
    number = whole or pt.is_floating(found) or pt.is_decimal(found)
    wanted = pa.string() if text else found
    if column == "event_time":
        wanted = TIME if text or whole or pt.is_timestamp(found) else found
    elif column in ("event_id", "backbone_version") and whole:
        wanted = pa.string()
    elif (column in (*IDS, "served_version") and whole) or (
        column == "label" and (whole or pt.is_boolean(found))
    ):
        wanted = pa.int64()
    elif column in NUMBERS and number:
        wanted = pa.float64()
    return wanted


def selection(
    names: Iterable[str], rename: Mapping[str, str], needed: Sequence[str] = (), what: str = "the source"
) -> dict[str, str]:
    """Map contract columns to source columns, for the columns that the source has.

    Raises :class:`InputError` when ``what`` lacks a needed one.

    >>> selection(["pid", "y", "extra"], {"item_id": "pid", "label": "y"})
    {'item_id': 'pid', 'label': 'y'}
    """
    present = Counter(list(names))
    chosen = {column: rename.get(column, column) for column in CONTRACT_COLUMNS}
    for column, name in chosen.items():
        if present[name] > 1:
            raise InputError(f"the source has {present[name]} columns {name!r} for {column}; name each once")
    for column in needed:
        if chosen[column] not in present:
            found = ", ".join(present)
            raise InputError(f"{what} has no column {chosen[column]!r} for {column}; it has: {found}")
    return {column: name for column, name in chosen.items() if name in present}


def repetitive_text(schema: pa.Schema, rename: Mapping[str, str]) -> list[str]:
    """Return the source columns to read as dictionaries.

    >>> repetitive_text(pa.schema({"pid": pa.string(), "user_id": pa.int64()}), {"item_id": "pid"})
    ['pid']
    """
    chosen = selection(schema.names, rename)
    names = [chosen[column] for column in REPETITIVE if column in chosen]
    return [name for name in names if pt.is_string(schema.field(name).type)]


def common_type(column: str, first: pa.DataType, second: pa.DataType) -> pa.DataType:
    """Return the type that holds both, where files or batches of one window differ; raise without one."""
    if first == second or pt.is_null(second):
        return first
    if pt.is_null(first):
        return second
    if column == "label" and {str(first), str(second)} == {"int64", "double"}:
        return pa.float64()
    raise InputError(
        f"column {column} is {first} in one part of the window and {second} in another; "
        "write it in one type, or map the new column in the deployment's source"
    )


def convert(column: str, values: pa.Array, source: Mapped) -> pa.Array:
    """Convert values to the log's type; unchanged when no lossless conversion exists."""
    if pt.is_nested(values.type) and not pt.is_run_end_encoded(values.type):
        raise InputError(
            f"column {column} is {values.type}; expected a plain value per row, map another column"
        )
    if column in TEXTS:
        values = decoded(values)  # an id that is not UTF-8 makes one bad row, not a bad file
    else:
        require_utf8(column, values)
    if column == "event_time":
        return to_utc(values, source)
    values = cast(column, values, target_type(column, values.type))
    if column == "weight" and values.null_count and pt.is_floating(values.type):
        values = values.fill_null(1.0)  # rows older than the column
    return values


def one_score(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Drop the column of probabilities when there are logits; fill missing logits from it."""
    names = rows.schema.names
    if not {"logit", "probability"} <= set(names) or rows.schema.field("logit").type != pa.float64():
        return rows
    logits = rows.column("logit")
    scores = rows.column("probability")
    if logits.null_count and scores.type == pa.float64():
        inside = pc.if_else(
            pc.and_(pc.greater_equal(scores, 0.0), pc.less_equal(scores, 1.0)), scores, np.nan
        )
        clipped = pc.max_element_wise(pc.min_element_wise(inside, 1 - FLOOR), FLOOR)
        odds = pc.subtract(pc.ln(clipped), pc.log1p(pc.negate(clipped)))
        logits = pc.if_else(pc.is_null(logits), pc.if_else(pc.is_nan(inside), inside, odds), logits)
    kept = {name: logits if name == "logit" else rows.column(name) for name in names if name != "probability"}
    return pa.record_batch(kept)


def cast(column: str, values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Cast without loss, or raise an error that names the column."""
    if values.type == wanted:
        return values
    try:
        return pc.cast(values, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"column {column}: cannot turn {values.type} into {wanted}: {error}") from None


def to_utc(values: pa.Array, source: Mapped) -> pa.Array:
    """Convert times to UTC, in microseconds; raise for times without a zone unless the source names one."""
    if pt.is_dictionary(values.type):
        values = values.dictionary_decode()
    found = values.type
    if pt.is_null(found) or (pt.is_timestamp(found) and found.tz is not None):
        return cast_times(values, TIME)
    if pt.is_integer(found):
        return from_epoch(values, source.epoch_unit)
    if target_type("event_time", found) != TIME:
        raise InputError(f"column event_time is {found}; expected a timestamp, or text in ISO 8601")
    if source.naive_time_zone is not None:
        return from_local(cast_times(values, NAIVE), source.naive_time_zone)
    if pt.is_timestamp(found):
        raise InputError(
            "column event_time has no time zone; write it in UTC, "
            "or name its zone as naive_time_zone of the source"
        )
    return cast_times(values, TIME)  # text: Arrow requires an offset in every value


def from_epoch(values: pa.Array, unit: str | None) -> pa.Array:
    """Convert numbers since 1970 to timestamps."""
    if unit is None:
        raise InputError("column event_time holds numbers; say what they count with epoch_unit: s, ms or us")
    counted = pc.cast(cast_times(values, pa.int64()), pa.timestamp(unit, "UTC"))
    return cast_times(counted, TIME)


def cast_times(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Cast times; raise :class:`InputError` for text that is not a time, and on overflow."""
    found = values.type
    try:
        # Nanoseconds are truncated, never rounded up. Coarser units raise on overflow.
        return pc.cast(values, wanted, safe=not pt.is_timestamp(found) or found.unit != "ns")
    except pa.ArrowInvalid as error:
        remedy = "check the times and epoch_unit of the source"
        if not (pt.is_timestamp(found) or pt.is_integer(found)):
            remedy = "expected ISO 8601 with an offset, for example 2026-01-05T09:30:00Z"
        raise InputError(f"column event_time: {error}; {remedy}") from None


def from_local(local: pa.Array, zone: str) -> pa.Array:
    """Convert wall-clock times of a zone to timestamps, by the rule of Python's ``fold=0``.

    A repeated time is the first of the two. A skipped time uses the offset from before the gap, so that it
    lies as long after the change as it lies after the start of the gap on the clock.
    """
    early, late = _both_readings(local, zone)
    times = pc.cast(early, TIME)
    skipped = _differ_by(early, late, skips=True)
    if pc.any(skipped).as_py():
        begins = pc.add(pc.local_timestamp(early), pa.scalar(1, pa.duration("us")))
        shifted = pc.add(pc.cast(late, TIME), pc.subtract(local, begins))
        times = pc.if_else(pc.fill_null(skipped, False), shifted, times)
    return times


def clock_changes(values: pa.Array, source: Mapped) -> dict[str, pa.Array]:
    """Map each note to a mask of rows whose time the clock of ``naive_time_zone`` repeats, or skips."""
    plain = values.dictionary_decode() if pt.is_dictionary(values.type) else values
    found = plain.type
    zoned = pt.is_timestamp(found) and found.tz is not None
    if source.naive_time_zone is None or zoned or pt.is_integer(found) or pt.is_null(found):
        return {}
    early, late = _both_readings(cast_times(plain, NAIVE), source.naive_time_zone)
    return {
        name: pc.fill_null(_differ_by(early, late, skips=skips), False)
        for name, skips in ((REPEATED_TIMES, False), (SKIPPED_TIMES, True))
    }


def _both_readings(local: pa.Array, zone: str) -> tuple[pa.Array, pa.Array]:
    """Return each time by the earlier and the later offset; they differ only around a clock change."""
    early, late = (
        pc.assume_timezone(local, zone, ambiguous=which, nonexistent=which)
        for which in ("earliest", "latest")
    )
    return early, late


def _differ_by(early: pa.Array, late: pa.Array, *, skips: bool) -> pa.Array:
    """Mark times in a gap (Arrow's readings are 1 µs apart) or in a repeated hour (further apart)."""
    apart = pc.cast(pc.subtract(late, early), pa.int64())
    return pc.equal(apart, 1) if skips else pc.greater(apart, 1)
