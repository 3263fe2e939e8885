"""The content digest ignores order and batches and changes with every value."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slc_ops.base.hashing import ContentDigest, text_hashes

texts = st.lists(st.one_of(st.none(), st.text(max_size=40)), min_size=1, max_size=30)


def digest(*batches: pa.RecordBatch) -> str:
    adding = ContentDigest()
    for batch in batches:
        adding.add(batch)
    return adding.hexdigest()


def batch_of(values: list[str | None]) -> pa.RecordBatch:
    numbers = [None if value is None else len(value) / 7 for value in values]
    return pa.record_batch({"id": pa.array(values, pa.string()), "x": pa.array(numbers, pa.float64())})


@pytest.mark.slow
@given(values=texts, cut=st.integers(0, 30), seed=st.randoms())
@settings(max_examples=60, deadline=None)
def test_batches_and_order_do_not_change_the_digest(values: list[str | None], cut: int, seed: object) -> None:
    whole = batch_of(values)
    shuffled = list(values)
    seed.shuffle(shuffled)  # type: ignore[attr-defined]
    other = batch_of(shuffled)
    assert digest(whole) == digest(other.slice(0, cut), other.slice(min(cut, len(values))))


@given(values=texts, place=st.integers(0, 29), new=st.text(max_size=20))
@settings(max_examples=60, deadline=None)
def test_one_changed_value_changes_the_digest(values: list[str | None], place: int, new: str) -> None:
    place %= len(values)
    changed = [*values[:place], new, *values[place + 1 :]]
    assert (digest(batch_of(values)) == digest(batch_of(changed))) == (values[place] == new)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": ["x"]}, {"b": ["x"]}),
        ({"a": [""]}, {"a": pa.array([None], pa.string())}),
        ({"a": ["x", "x"]}, {"a": ["x"]}),
        ({"a": [0.0]}, {"a": [-0.0]}),
        ({"a": ["x"], "b": ["y"]}, {"a": ["y"], "b": ["x"]}),
        ({"a": [1], "b": [2]}, {"a": [2], "b": [1]}),
        ({"a": ["12345678"]}, {"a": ["12345678\0"]}),
        ({"a": [1]}, {"a": [1.0]}),
    ],
)
def test_different_contents_have_different_digests(one: dict[str, object], other: dict[str, object]) -> None:
    assert digest(pa.record_batch(one)) != digest(pa.record_batch(other))


def test_values_swapped_between_rows_change_the_digest() -> None:
    rows = pa.record_batch({"user": ["a", "b"], "label": [0, 1]})
    swapped = pa.record_batch({"user": ["a", "b"], "label": [1, 0]})
    assert digest(rows) != digest(swapped)


def test_the_digest_is_stable_across_releases() -> None:
    rows = pa.record_batch(
        {"id": ["ä", "", None, "0123456789"], "x": [1.5, None, -2.0, 0.0], "n": [1, 2, 3, None]}
    )
    assert digest(rows) == "616d58c374e677890428139b9afe034390ebaaa4e51ec0ffc9a0ad0136ac61eb"


def test_slices_hash_like_copies() -> None:
    whole = pa.array(["left out", "a", "bb", "x" * 10_000, "", None, "Übung"])
    part = whole.slice(1)
    assert (text_hashes(part) == text_hashes(pa.array(part.to_pylist()))).all()
