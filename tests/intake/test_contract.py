"""Lossless conversion from a source's types to those of the log."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from slc_ops.base.errors import InputError
from slc_ops.intake.contract import REPEATED_TIMES, SKIPPED_TIMES, TIME, clock_changes, common_type, convert
from slc_ops.settings.sources import LakeSource

PLAIN = LakeSource(path="lake")
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        ("event_id", pa.array([7, None]), pa.array(["7", None])),
        ("user_id", pa.array([7], pa.uint16()), pa.array([7], pa.int64())),
        ("item_id", pa.array(["a", "a"]).dictionary_encode(), pa.array(["a", "a"])),
        ("item_id", pa.array(["a"], pa.large_string()), pa.array(["a"])),
        ("label", pa.array([True, False]), pa.array([1, 0])),
        ("label", pa.array([1], pa.uint8()), pa.array([1])),
        ("logit", pa.array([0.5], pa.float32()), pa.array([0.5])),
        ("logit", pa.array([3]), pa.array([3.0])),
        ("weight", pa.array([2], pa.decimal128(5, 2)), pa.array([2.0])),
        ("label", pa.array([0.5]), pa.array([0.5])),  # checked by validation
        ("logit", pa.array(["0.5"]), pa.array(["0.5"])),  # checked by validation
    ],
)
def test_types_are_converted_only_without_loss(column: str, values: pa.Array, expected: pa.Array) -> None:
    assert convert(column, values, PLAIN).equals(expected)


def test_an_id_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="user_id"):
        convert("user_id", pa.array([2**64 - 1], pa.uint64()), PLAIN)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([NOON], pa.timestamp("s", "UTC")),
        pa.array([NOON], pa.timestamp("ns", "America/New_York")),
        pa.array(["2026-01-05T12:00:00Z"]),
        pa.array(["2026-01-05T13:30:00+01:30"]),
        pa.array(["2026-01-05 12:00:00.000000+00:00"]),
    ],
)
def test_every_zone_becomes_utc(values: pa.Array) -> None:
    assert convert("event_time", values, PLAIN).to_pylist() == [NOON]
    assert convert("event_time", values, PLAIN).type == TIME


def test_texts_with_several_zones_give_one_timeline() -> None:
    values = pa.array(["2026-01-05T12:00:00Z", "2026-01-05T21:00:00+09:00", None])
    assert convert("event_time", values, PLAIN).to_pylist() == [NOON, NOON, None]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([NOON.replace(tzinfo=None)]),
        pa.array(["2026-01-05T12:00:00"]),
        pa.array(["2026-01-05T12:00:00Z", "2026-01-05T12:00:00"]),
        pa.array(["yesterday"]),
        pa.array([1_767_614_400]),
        pa.array([1.5]),
    ],
)
def test_an_ambiguous_time_is_refused(values: pa.Array) -> None:
    with pytest.raises(InputError, match="event_time"):
        convert("event_time", values, PLAIN)


def test_a_named_zone_applies_to_times_without_a_zone() -> None:
    berlin = LakeSource(path="lake", naive_time_zone="Europe/Berlin")
    local = datetime(2026, 7, 1, 14)  # noqa: DTZ001 - without a zone, on purpose
    for values in (pa.array([local]), pa.array(["2026-07-01 14:00:00"])):
        assert convert("event_time", values, berlin).to_pylist() == [datetime(2026, 7, 1, 12, tzinfo=UTC)]


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "Pacific/Apia"]
)
def test_local_times_around_a_clock_change_are_read_as_python_does(zone: str) -> None:
    """Repeated times mean the first of the two; skipped times use the offset from before the gap."""
    step, first = timedelta(minutes=10), datetime(2011, 12, 1)  # noqa: DTZ001 - wall-clock times
    local = [first + k * step for k in range(365 * 144)]
    found = convert("event_time", pa.array(local), LakeSource(path="lake", naive_time_zone=zone))
    assert found.to_pylist() == [each.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC) for each in local]


def test_repeated_and_skipped_local_times_are_counted() -> None:
    berlin = LakeSource(path="lake", naive_time_zone="Europe/Berlin")
    texts = ["2026-10-25 02:52:00", "2026-03-29 02:30:00", "2026-03-29 03:30:00", None]
    found = clock_changes(pa.array(texts), berlin)
    assert found[REPEATED_TIMES].to_pylist() == [True, False, False, False]
    assert found[SKIPPED_TIMES].to_pylist() == [False, True, False, False]
    assert clock_changes(pa.array(texts), PLAIN) == {}
    assert clock_changes(pa.array([NOON]), berlin) == {}


@pytest.mark.parametrize(("unit", "factor"), [("s", 1), ("ms", 1_000), ("us", 1_000_000)])
def test_numeric_times_use_the_named_unit(unit: str, factor: int) -> None:
    source = LakeSource(path="lake", epoch_unit=unit)
    values = pa.array([int(NOON.timestamp()) * factor])
    assert convert("event_time", values, source).to_pylist() == [NOON]


def test_times_finer_than_microseconds_stay_in_their_window() -> None:
    last = int(NOON.timestamp()) * 10**9 - 1  # one nanosecond before noon
    values = pa.array([last], pa.timestamp("ns", "UTC"))
    assert convert("event_time", values, PLAIN).to_pylist() == [NOON - timedelta(microseconds=1)]


def test_parts_of_a_window_share_a_type() -> None:
    assert common_type("label", pa.int64(), pa.float64()) == pa.float64()
    assert common_type("user_id", pa.null(), pa.int64()) == pa.int64()
    assert common_type("user_id", pa.string(), pa.null()) == pa.string()
    with pytest.raises(InputError, match="item_id is string in one part"):
        common_type("item_id", pa.string(), pa.int64())


def test_utc_offsets_of_any_size_are_read() -> None:
    timestamp = datetime(2026, 1, 5, 17, 45, tzinfo=timezone(timedelta(hours=5, minutes=45)))
    assert convert("event_time", pa.array([timestamp.isoformat()]), PLAIN).to_pylist() == [NOON]
