import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slc_ops.base.errors import InputError
from slc_ops.rows.item_index import ItemIndex, keys_of

texts = st.lists(st.text(max_size=40), unique=True, max_size=60)
numbers = st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, max_size=60)


@settings(max_examples=200, deadline=None)
@given(st.one_of(texts, numbers), st.one_of(texts, numbers))
def test_the_index_answers_like_a_dictionary(known, others):
    kind = pa.string() if any(isinstance(item, str) for item in known) else pa.int64()
    index = ItemIndex(pa.array(known, kind))
    place = {item: position for position, item in enumerate(known)}
    asked = known + [item for item in others if isinstance(item, str) == (kind == pa.string())]
    expected = [place.get(item, -1) for item in asked]
    order = np.append(index.order, -1)
    assert order[index.positions(pa.array(asked, kind))].tolist() == expected
    assert [order[index.position(item)] for item in asked] == expected


def test_texts_that_differ_only_in_trailing_zero_bytes_are_different():
    ids = ["", "\0", "\0\0", "a", "a\0", "abcdefgh", "abcdefgh\0", "x" * 15, "x" * 15 + "\0", "x" * 16]
    index = ItemIndex(pa.array(ids))
    assert index.order[index.positions(pa.array(ids))].tolist() == list(range(len(ids)))


def test_long_texts_keep_apart():
    ids = pa.array([f"{'https://example.org/' * 3}{number}" for number in range(5000)])
    keys = keys_of(ids)
    assert len(set(zip(keys[0].tolist(), keys[1].tolist(), strict=True))) == 5000


def test_a_slice_of_a_column_is_looked_up_by_its_own_rows():
    ids = pa.array([f"item {number}" for number in range(40_000)])
    index = ItemIndex(ids)
    part = ids.slice(20_001, 17_000)
    assert index.order[index.positions(part)].tolist() == list(range(20_001, 37_001))


@pytest.mark.parametrize(
    "ids",
    [
        ["a", "b"] * 10,
        np.array(["a", "b"] * 10),
        pa.array(["a", "b"] * 10, pa.large_string()),
        pa.array(["a", "b"] * 10).dictionary_encode(),
        pa.chunked_array([["a"], ["b"] * 19]),
    ],
)
def test_ids_come_in_many_containers(ids):
    index = ItemIndex(pa.array(["a", "b"]))
    assert (index.positions(ids) >= 0).all()


@pytest.mark.parametrize("ids", [[1], [1] * 20, [None], [True], [1.5] * 20, [object()] * 20])
def test_ids_of_another_type_are_refused(ids):
    with pytest.raises(InputError):
        ItemIndex(pa.array(["a"])).positions(ids)


def test_text_is_refused_where_integers_are_known():
    with pytest.raises(InputError, match="knows items of type int64"):
        ItemIndex(pa.array([1])).positions(["1"] * 20)


def test_an_empty_index_knows_nothing():
    index = ItemIndex(pa.array([], pa.string()))
    assert index.positions(["a"] * 20).tolist() == [-1] * 20
    assert index.position("a") == -1
    assert index.positions([]).tolist() == []
